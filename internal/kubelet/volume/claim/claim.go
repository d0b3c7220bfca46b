// Package claim serves persistentVolumeClaim and ephemeral volumes whose claim is bound to a volume
// of type hostPath, local or nfs.
//
// In: the claim and its volume from the API server, the node's labels. Out: the volume's path,
// checked; a server's directory is mounted.
package claim

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storage "k8s.io/component-helpers/storage/volume"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/hostpath"
	"github.com/gantry-project/gantry/internal/kubelet/volume/nfs"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumedir"
)

// Plugin is persistentVolumeClaim and ephemeral.
type Plugin struct {
	Claims volume.Claims
	Mounts volume.Mounter
	Labels func() (map[string]string, bool) // of this node; false while it has no Node object. Nil checks no affinity
}

// Name is the field of v1.VolumeSource.
func (Plugin) Name() string { return "persistentVolumeClaim" }

// Dir is the directory of volumes that are mounted; paths of the node stay where they are.
func (Plugin) Dir() string { return nfs.Dir }

// CanSupport tells whether the volume is a claim, or makes one.
func (Plugin) CanSupport(v *v1.Volume) bool {
	return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
}

// RequiresRemount is false.
func (Plugin) RequiresRemount() bool { return false }

// SetUp finds the volume behind the claim.
func (t Plugin) SetUp(ctx context.Context, a volume.MounterArgs) (volume.Mounted, error) {
	name, readOnly := a.Pod.Name+"-"+a.Volume.Name, false
	if c := a.Volume.PersistentVolumeClaim; c != nil {
		name, readOnly = c.ClaimName, c.ReadOnly
	}
	pv, err := t.boundVolume(ctx, a, name)
	if err != nil {
		return volume.Mounted{},
			volume.Unprocessed{Err: fmt.Errorf("error processing PVC %s/%s: %w", a.Pod.Namespace, name, err)}
	}
	m := volume.Mounted{Name: a.Volume.Name, Type: t.Name(), ReadOnly: readOnly,
		Device: pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == v1.PersistentVolumeBlock}
	if err := checkMode(a.Pod, a.Volume.Name, m.Device); err != nil {
		return volume.Mounted{}, volume.Unprocessed{Err: err}
	}
	if err := t.checkNodeAffinity(pv); err != nil {
		return volume.Mounted{}, err
	}
	switch {
	case pv.Spec.HostPath != nil:
		m.Path = pv.Spec.HostPath.Path
		return m, hostpath.Check(m.Path, pv.Spec.HostPath.Type)
	case pv.Spec.Local != nil:
		m.Path, m.Size = pv.Spec.Local.Path, volume.SizeOfMount
		if m.Device {
			m.Size = volume.SizeOfBlock
		}
		return m, setUpLocal(a, m, pv.Name)
	case pv.Spec.NFS != nil:
		n := pv.Spec.NFS
		m.Path, m.Size = a.Dir, volume.SizeOfMount
		m.ReadOnly = m.ReadOnly || n.ReadOnly
		return m, nfs.Mount(t.Mounts, a.Dir, nfs.Export{Server: n.Server, Path: n.Path, ReadOnly: m.ReadOnly,
			Options: pv.Spec.MountOptions})
	}
	return volume.Mounted{}, fmt.Errorf("volume %s of claim %s/%s: %w", pv.Name, a.Pod.Namespace, name,
		volume.CheckSourceSupported(&pv.Spec.PersistentVolumeSource))
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
func (t Plugin) checkNodeAffinity(pv *v1.PersistentVolume) error {
	if t.Labels == nil {
		return nil
	}
	labels, known := t.Labels()
	if !known {
		return nil // without a Node object there is nothing to compare with
	}
	if err := storage.CheckNodeAffinity(pv, labels); err != nil {
		return fmt.Errorf("storage node affinity check failed for volume %q : %w", pv.Name, err)
	}
	return nil
}

// TearDown unmounts what was mounted for the Pod; paths of the node outlive it.
func (t Plugin) TearDown(_ context.Context, dir string) error { return volumedir.Remove(t.Mounts, dir) }

func (t Plugin) boundVolume(ctx context.Context, a volume.MounterArgs, name string) (*v1.PersistentVolume, error) {
	c, err := t.Claims.GetClaim(ctx, a.Pod.Namespace, name)
	if err != nil {
		return nil, fmt.Errorf("failed to fetch PVC from API server: %w", err)
	}
	if a.Volume.Ephemeral != nil && !metav1.IsControlledBy(c, a.Pod) {
		return nil, fmt.Errorf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", c.Namespace, c.Name,
			a.Pod.Namespace, a.Pod.Name)
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
