package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumedir"
	"github.com/gantry-project/gantry/internal/pod"
)

// unmountDeviceTimeout is how long UnmountDevice may take.
const unmountDeviceTimeout = 2 * time.Minute

// specError is the failure of a volume that is understood, by upstream's name of it: that of the
// PersistentVolume, if it has one.
type specError struct {
	name  string
	block bool // volumeMode Block
	err   error
}

func (e specError) Error() string { return e.err.Error() }
func (e specError) Unwrap() error { return e.err }

// bootID is the running boot of the node; mounts of another are gone.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // none: everything is staged again
	return strings.TrimSpace(string(id))
}

// prepare stores what there is to know of a volume before it is mounted, so that it can be taken
// away whatever happens, and stages it. What is stored stays until the volume is torn down.
func (f *Manager) prepare(ctx context.Context, t volume.Plugin, a *volume.MounterArgs) (err error) {
	if a.Data, err = f.newVolumeData(a.Pod, a.Spec, t); err != nil || t.Dir() == "" {
		return err // without a directory there is nothing to take away
	}
	u := podVolume{a.Pod.UID, a.Data.VolumeName}
	taken, err := f.takeExclusively(a.Spec, a.Data, u)
	if err != nil {
		return err
	}
	if old, err := readVolumeData(a.MetaDir); err == nil && (old == a.Data || old.DeviceMountPath != "") {
		a.Data = old
	} else if err := writeVolumeData(a.MetaDir, a.Data); err != nil {
		if taken { // nothing says that the Pod has it
			_, given := f.removeUser(a.Data, u)
			err = errors.Join(err, given)
		}
		return err
	}
	return f.mountDevice(ctx, t, a)
}

// mountDevice stages the Pod's volume on the node, unless it is staged already, and counts the
// Pod's volume as a user. What is there was staged by an earlier kubelet if the node did not boot
// since.
func (f *Manager) mountDevice(ctx context.Context, t volume.Plugin, a *volume.MounterArgs) error {
	m, ok := t.(volume.DeviceMountableVolumePlugin)
	data := a.Data
	if !ok || data.DeviceMountPath == "" {
		return nil
	}
	d, err := f.addUser(a.Spec, data, podVolume{a.Pod.UID, data.VolumeName})
	if err != nil {
		return err
	}
	if err := d.lock(ctx); err != nil {
		return err
	}
	defer d.unlock()
	a.Data.DeviceMountPath = d.data.DeviceMountPath // another PersistentVolume's of the same volume, maybe
	if d.mounted {
		return nil
	}
	d.removed = false
	if err := writeVolumeData(stagedDataDir(d.data), d.data); err != nil {
		return err
	}
	hang := slowStep{"staging of volume " + data.VolumeName, data.DeviceMountPath, csiDriver(data)}
	if hang.driver != "" {
		hang.driver += ", or who attaches its volumes"
	}
	err = f.withHangReport(pod.Ref(a.Pod), hang, func() error {
		return m.MountDevice(ctx, volume.DeviceMounterArgs{Spec: a.Spec, Data: d.data, MountOptions: a.MountOptions,
			FSGroup: a.FSGroup, Event: a.Event, Began: a.Began,
			Attempted: func(path string) { f.attempt(a.Pod.UID, a.Spec, data, path) }})
	})
	if err != nil {
		if part := (volume.PartError{}); errors.As(err, &part) {
			return err
		}
		return volume.PartError{Part: volume.MountDevice, Err: err}
	}
	done := d.data
	done.MountedInBoot = f.bootID
	if err := writeVolumeData(stagedDataDir(done), done); err != nil {
		return err
	}
	d.mounted = true
	return nil
}

// releaseDevice ends the use of a staged volume by a Pod's, and unstages it if that was the last.
// As upstream has it, this does not keep the Pod: what fails is said and tried again by the next
// sweep, what takes half as long as a hang goes on by itself.
func (f *Manager) releaseDevice(ctx context.Context, ref journal.Ref, u podVolume, data volume.VolumeData) error {
	if data.DeviceMountPath == "" {
		return nil
	}
	d, err := f.removeUser(data, u)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	startedAt := time.Now()
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unmountDeviceTimeout)
		defer cancel()
		if err := f.unmountDevice(ctx, ref, d); err != nil {
			klog.Background().Error(err, "A volume is not unstaged, trying again", "pod",
				klog.KRef(ref.Namespace, ref.Name), "podUID", ref.UID, "volume", u.name)
			f.d.Journal.Put(ref, journal.VolumeWaiting{Volume: u.name, Type: data.PluginName, Message: err.Error(),
				Fix: fmt.Sprintf("look at the driver %s on this node", data.DriverName), Unmount: true,
				Took: journal.Took(time.Since(startedAt))})
		}
	}()
	select {
	case <-done:
	case <-time.After(f.hangThreshold() / 2):
	}
	return nil
}

// unmountDevice unstages a volume that no Pod's volume uses, and removes what was stored of it.
func (f *Manager) unmountDevice(ctx context.Context, ref journal.Ref, d *stagedVolume) error {
	if err := d.lock(ctx); err != nil {
		return err
	}
	defer d.unlock()
	if d.removed || f.inUse(d) { // another one, who waited no less, did it
		return nil
	}
	dir := stagedDataDir(d.data)
	m, ok := f.d.Plugins.FindPluginByName(d.data.PluginName).(volume.DeviceMountableVolumePlugin)
	if !ok {
		return fmt.Errorf("%s: no volume type of this node staged it; remove it by hand", dir)
	}
	d.mounted = false // whatever comes of it: a Pod that comes for it now has it staged anew
	hang := slowStep{"unstaging of volume " + d.data.SpecVolID, d.data.DeviceMountPath, csiDriver(d.data)}
	operation := volume.OperationUnmountDevice
	if d.data.Block {
		operation = volume.OperationUnmapDevice
	}
	end := f.removal(operation, d.data, f.isMigrated(d.data))
	err := f.withHangReport(ref, hang, func() error {
		if err := forgetMounted(dir, d.data); err != nil {
			return err
		}
		if err := m.UnmountDevice(ctx, d.data); err != nil {
			return err
		}
		return f.removeStaged(d.data)
	})
	end(err)
	if err != nil {
		return fmt.Errorf("UnmountDevice failed for volume %q : %w", d.data.SpecVolID, err)
	}
	d.removed = true
	f.forgetUnused(d)
	return nil
}

// removeStaged removes what was made for a volume that is unstaged.
func (f *Manager) removeStaged(d volume.VolumeData) error {
	dir := stagedDataDir(d)
	if err := volumedir.Remove(f.d.Mounts, dir); err != nil || filepath.Base(dir) != deviceDataDir {
		return err
	}
	_ = os.Remove(filepath.Dir(dir)) // kept by a device that is still mapped
	return nil
}

// forgetMounted takes back, for kubelets to come, that the volume is staged.
func forgetMounted(dir string, data volume.VolumeData) error {
	if _, err := readVolumeData(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return writeVolumeData(dir, data)
}

// cleanupDevices unstages what no Pod's volume uses: what could not be unstaged before, or was left
// by an earlier kubelet. Each goes by itself; one that hangs is in the error.
func (f *Manager) cleanupDevices(ctx context.Context) error {
	unused, err := f.unusedStagedVolumes()
	if err != nil {
		return err
	}
	failed := make([]error, len(unused))
	var all sync.WaitGroup
	for i, d := range unused {
		all.Go(func() {
			done := make(chan error, 1)
			go func() { done <- f.unmountDevice(ctx, journal.Ref{}, d) }()
			select {
			case failed[i] = <-done:
			case <-ctx.Done():
				failed[i] = fmt.Errorf("UnmountDevice of volume %q: %w", d.data.SpecVolID, ctx.Err())
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}
