package volumetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// Driver is a fake storage driver. Like a CSI driver it is a process of its own that outlives
// kubelets, and it refuses calls out of order: publishing what is not staged, unstaging what is
// published. All calls can be repeated.
type Driver struct {
	mu        sync.Mutex
	staged    map[string]bool   // by staging path
	published map[string]string // staging path by target path
	calls     []string
	fail      map[string]error
	hang      map[string]chan struct{}
}

// NewDriver returns a driver that has nothing staged.
func NewDriver() *Driver {
	return &Driver{staged: map[string]bool{}, published: map[string]string{}, fail: map[string]error{},
		hang: map[string]chan struct{}{}}
}

// Fail makes a call, like NodeStageVolume, fail from now on; nil ends that.
func (d *Driver) Fail(call string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail[call] = err
}

// Hang keeps calls from now on until the channel is closed.
func (d *Driver) Hang(call string, until chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hang[call] = until
}

// Reboot forgets all mounts, as a node does that boots.
func (d *Driver) Reboot() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.staged)
	clear(d.published)
}

// Calls are the calls since the last call of Calls, each with its volume handle; those that failed
// are among them.
func (d *Driver) Calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := d.calls
	d.calls = nil
	return calls
}

func (d *Driver) call(name, handle string, do func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, name+" "+handle)
	if until := d.hang[name]; until != nil {
		d.mu.Unlock()
		<-until
		d.mu.Lock()
	}
	if err := d.fail[name]; err != nil {
		return err
	}
	return do()
}

// StagedPlugin is a type of volumes that are staged on the node, served by a Driver. It takes the
// place of csi.
type StagedPlugin struct{ Driver *Driver }

var _ volume.DeviceMountableVolumePlugin = StagedPlugin{}

// Name is the field of the sources.
func (StagedPlugin) Name() string { return "csi" }

// Dir is the plugin's directory.
func (StagedPlugin) Dir() string { return "kubernetes.io~csi" }

// RequiresRemount is false.
func (StagedPlugin) RequiresRemount(volume.Spec) bool { return false }

// VolumeID is the driver and handle of the PersistentVolume; an inline volume is the Pod's own.
func (StagedPlugin) VolumeID(pod *v1.Pod, s volume.Spec) (volume.VolumeID, error) {
	if s.PersistentVolume == nil {
		return volume.VolumeID{DriverName: s.Volume.CSI.Driver,
			VolumeHandle: string(pod.UID) + "/" + s.Volume.Name}, nil
	}
	c := s.PersistentVolume.Spec.CSI
	return volume.VolumeID{DriverName: c.Driver, VolumeHandle: c.VolumeHandle}, nil
}

// CanDeviceMount is true for PersistentVolumes.
func (StagedPlugin) CanDeviceMount(s volume.Spec) bool { return s.PersistentVolume != nil }

// MountDevice is NodeStageVolume.
func (p StagedPlugin) MountDevice(_ context.Context, a volume.DeviceMounterArgs) error {
	return p.Driver.call("NodeStageVolume", a.Data.VolumeHandle, func() error {
		p.Driver.staged[a.Data.DeviceMountPath] = true
		return os.MkdirAll(a.Data.DeviceMountPath, 0o750)
	})
}

// UnmountDevice is NodeUnstageVolume.
func (p StagedPlugin) UnmountDevice(_ context.Context, v volume.VolumeData) error {
	return p.Driver.call("NodeUnstageVolume", v.VolumeHandle, func() error {
		for target, staging := range p.Driver.published {
			if staging == v.DeviceMountPath {
				return fmt.Errorf("volume %s is still published at %s", v.VolumeHandle, target)
			}
		}
		delete(p.Driver.staged, v.DeviceMountPath)
		return os.RemoveAll(v.DeviceMountPath)
	})
}

// SetUp is NodePublishVolume.
func (p StagedPlugin) SetUp(_ context.Context, a volume.MounterArgs) (volume.Mounted, error) {
	target := filepath.Join(a.Dir, "mount")
	err := p.Driver.call("NodePublishVolume", a.Data.VolumeHandle, func() error {
		if path := a.Data.DeviceMountPath; path != "" && !p.Driver.staged[path] {
			return fmt.Errorf("volume %s is not staged at %s", a.Data.VolumeHandle, path)
		}
		p.Driver.published[target] = a.Data.DeviceMountPath
		return os.MkdirAll(target, 0o750)
	})
	return volume.Mounted{Path: target, ReadOnly: a.Spec.ReadOnly, Size: volume.SizeOfMount}, err
}

// TearDown is NodeUnpublishVolume.
func (p StagedPlugin) TearDown(_ context.Context, a volume.UnmounterArgs) error {
	return p.Driver.call("NodeUnpublishVolume", a.Data.VolumeHandle, func() error {
		delete(p.Driver.published, filepath.Join(a.Dir, "mount"))
		return os.RemoveAll(a.Dir)
	})
}
