// Package claim serves persistentVolumeClaim and ephemeral volumes whose claim is bound to a volume on this node: hostPath or local.
//
// Chapter: furnished. In: the claim and its volume from the API server. Out: the volume's path, checked. Nothing is mounted or removed by the kubelet.
package claim

import (
	"context"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/hostpath"
	"github.com/gantry-project/gantry/internal/kubelet/volume/own"
)

// Type is persistentVolumeClaim and ephemeral.
type Type struct{ Claims volume.Claims }

// Name is the field of v1.VolumeSource.
func (Type) Name() string { return "persistentVolumeClaim" }

// Dir is empty: the volume is not below the Pod's directory.
func (Type) Dir() string { return "" }

// Owns tells whether the volume is a claim, or makes one.
func (Type) Owns(v *v1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil }

// Refreshes is false.
func (Type) Refreshes() bool { return false }

// SetUp finds the volume behind the claim.
func (t Type) SetUp(ctx context.Context, a volume.Ask) (volume.Mounted, error) {
	name, readOnly := a.Pod.Name+"-"+a.Volume.Name, false
	if c := a.Volume.PersistentVolumeClaim; c != nil {
		name, readOnly = c.ClaimName, c.ReadOnly
	}
	pv, err := t.bound(ctx, a, name)
	if err != nil {
		return volume.Mounted{}, fmt.Errorf("error processing PVC %s/%s: %w", a.Pod.Namespace, name, err)
	}
	m := volume.Mounted{Name: a.Volume.Name, Type: t.Name(), ReadOnly: readOnly, Device: pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == v1.PersistentVolumeBlock}
	switch {
	case pv.Spec.HostPath != nil:
		m.Path = pv.Spec.HostPath.Path
		return m, hostpath.Check(m.Path, pv.Spec.HostPath.Type)
	case pv.Spec.Local != nil:
		m.Path = pv.Spec.Local.Path
		if _, err := os.Stat(m.Path); err != nil {
			return volume.Mounted{}, err
		}
		if m.Device {
			return m, nil
		}
		return m, own.Apply(m.Path, own.Group(a.Pod), readOnly)
	}
	return volume.Mounted{}, fmt.Errorf("volume %s of claim %s/%s is neither hostPath nor local: no volume type of this node serves it", pv.Name, a.Pod.Namespace, name)
}

// TearDown does nothing: the path outlives the Pod.
func (Type) TearDown(context.Context, string) error { return nil }

func (t Type) bound(ctx context.Context, a volume.Ask, name string) (*v1.PersistentVolume, error) {
	c, err := t.Claims.GetClaim(ctx, a.Pod.Namespace, name)
	if err != nil {
		return nil, fmt.Errorf("failed to fetch PVC from API server: %w", err)
	}
	if a.Volume.Ephemeral != nil && !metav1.IsControlledBy(c, a.Pod) {
		return nil, fmt.Errorf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", c.Namespace, c.Name, a.Pod.Namespace, a.Pod.Name)
	}
	if c.DeletionTimestamp != nil {
		return nil, fmt.Errorf("PVC is being deleted")
	}
	if c.Status.Phase != v1.ClaimBound || c.Spec.VolumeName == "" {
		return nil, fmt.Errorf("PVC is not bound")
	}
	pv, err := t.Claims.GetVolume(ctx, c.Spec.VolumeName)
	if err != nil {
		return nil, fmt.Errorf("failed to fetch PV %s from API server: %w", c.Spec.VolumeName, err)
	}
	if r := pv.Spec.ClaimRef; r == nil || r.UID != c.UID {
		return nil, fmt.Errorf("PVC %s/%s is not the claim volume %s is bound to", c.Namespace, c.Name, pv.Name)
	}
	return pv, nil
}
