// Package claim resolves persistentVolumeClaim and ephemeral volumes to their PersistentVolumes.
//
// Volumes of in-tree plugins that a CSI driver took over become that driver's.
//
// In: the claim and its PersistentVolume from the API server, the node's labels. Out: a
// volume.Spec, which the row of the PersistentVolume's source in the table of types serves; or what
// is wrong with the claim, in upstream's words.
package claim

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storage "k8s.io/component-helpers/storage/volume"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	podutil "github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/pod/csimigration"
)

// Resolver looks claims up.
type Resolver struct {
	Claims volume.Claims
	Labels func() (map[string]string, bool) // of this node; false while it has no Node object. Nil checks no affinity
}

// CreateVolumeSpec is the Pod's volume with the PersistentVolume behind its claim, if it has one.
// The error is a volume.Unprocessed when there is no such PersistentVolume that the Pod can use.
func (r Resolver) CreateVolumeSpec(ctx context.Context, pod *v1.Pod, v *v1.Volume) (volume.Spec, error) {
	spec := volume.Spec{Volume: v}
	switch {
	case csimigration.IsInline(v):
		pv, err := csimigration.Inline(v, pod.Namespace)
		if err != nil {
			return spec, volume.Unprocessed{Err: err}
		}
		spec.PersistentVolume, spec.Migrated = pv, true
		return spec, nil
	case !podutil.IsClaim(v):
		return spec, nil
	}
	name := volume.ClaimName(pod, v)
	found, size, err := r.boundVolume(ctx, pod, v)
	if err != nil {
		return spec, volume.Unprocessed{Err: fmt.Errorf("error processing PVC %s/%s: %w", pod.Namespace, name, err)}
	}
	pv, migrated, err := csimigration.PersistentVolume(found)
	if err != nil {
		return spec, volume.Unprocessed{Err: err}
	}
	spec.PersistentVolume, spec.ClaimSize, spec.Migrated = pv, size, migrated
	spec.ReadOnly = v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly
	if err := checkMode(pod, v.Name, spec.Block()); err != nil {
		return spec, volume.Unprocessed{Err: err}
	}
	return spec, r.checkNodeAffinity(pv)
}

// checkMode compares how containers use the volume with its mode.
func checkMode(pod *v1.Pod, name string, block bool) error {
	mounts, devices := volume.Uses(pod, name)
	if block && mounts {
		return fmt.Errorf("volume %s has volumeMode Block, but is specified in volumeMounts", name)
	}
	if !block && devices {
		return fmt.Errorf("volume %s has volumeMode Filesystem, but is specified in volumeDevices", name)
	}
	return nil
}

// checkNodeAffinity checks the volume's node affinity against this node's labels.
func (r Resolver) checkNodeAffinity(pv *v1.PersistentVolume) error {
	if r.Labels == nil {
		return nil
	}
	labels, known := r.Labels()
	if !known {
		return nil // without a Node object there is nothing to compare with
	}
	if err := storage.CheckNodeAffinity(pv, labels); err != nil {
		return fmt.Errorf("storage node affinity check failed for volume %q : %w", pv.Name, err)
	}
	return nil
}

func (r Resolver) boundVolume(ctx context.Context, pod *v1.Pod, v *v1.Volume) (*v1.PersistentVolume, *resource.Quantity,
	error) {
	c, err := r.Claims.GetClaim(ctx, pod.Namespace, volume.ClaimName(pod, v))
	if err != nil {
		return nil, nil, fmt.Errorf("failed to fetch PVC from API server: %w", err)
	}
	if v.Ephemeral != nil && !metav1.IsControlledBy(c, pod) {
		return nil, nil, fmt.Errorf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", c.Namespace, c.Name,
			pod.Namespace, pod.Name)
	}
	if c.DeletionTimestamp != nil {
		return nil, nil, fmt.Errorf("PVC is being deleted")
	}
	if c.Status.Phase != v1.ClaimBound || c.Spec.VolumeName == "" {
		return nil, nil, fmt.Errorf("PVC is not bound")
	}
	pv, err := r.Claims.GetVolume(ctx, c.Spec.VolumeName)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to fetch PV %s from API server: %w", c.Spec.VolumeName, err)
	}
	if ref := pv.Spec.ClaimRef; ref == nil || ref.UID != c.UID {
		return nil, nil, fmt.Errorf("PVC %s/%s is not the claim volume %s is bound to", c.Namespace, c.Name, pv.Name)
	}
	var size *resource.Quantity
	if q, ok := c.Status.Capacity[v1.ResourceStorage]; ok {
		size = &q
	}
	return pv, size, nil
}
