package volumemanager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// Names of raw volumes below the kubelet's directory, as upstream's.
const (
	volumeDevicesDir = "volumeDevices"
	stagingDir       = "staging"
	deviceDataDir    = "data"
)

// deviceMap is where a raw volume is mapped for a Pod.
type deviceMap struct {
	global string // plugins/…/volumeDevices/…/<uid>: the device is bound there and held open
	link   string // pods/<uid>/volumeDevices/<plugin>/<volume>: what containers get, a link to the device
}

func (f *Manager) deviceMapOf(t volume.BlockVolumePlugin, uid types.UID, specName string) deviceMap {
	return deviceMap{global: filepath.Join(f.d.Root, t.GlobalMapPath(specName), string(uid)),
		link: filepath.Join(f.podDir(uid), volumeDevicesDir, t.Dir(), specName)}
}

// mapDevice maps the device of a raw volume that is set up for the Pod, and returns the path for
// containers: upstream's MapBlockVolume. It can be repeated; what a node that was cut off left is
// replaced.
func (f *Manager) mapDevice(t volume.BlockVolumePlugin, uid types.UID, specName, device string) (string, error) {
	device, err := filepath.EvalSymlinks(device)
	if err != nil {
		return "", volume.PartError{Part: volume.EvalHostSymlinks, Err: err}
	}
	m := f.deviceMapOf(t, uid, specName)
	if err := errors.Join(f.bindDevice(device, m.global), linkDevice(device, m.link)); err != nil {
		return "", volume.PartError{Part: volume.MapBlockVolume, Err: err}
	}
	if _, err := f.d.Devices.AttachFileDevice(m.global); err != nil {
		return "", volume.PartError{Part: volume.MapBlockVolume,
			Err: fmt.Errorf("keeping the device at %s open: %w", m.global, err)}
	}
	return m.link, nil
}

// bindDevice binds a device to a file, unless it is bound there. Another one is unbound first.
func (f *Manager) bindDevice(device, at string) error {
	bound, err := f.d.Mounts.IsMountPoint(at)
	if err != nil {
		return err
	}
	if bound {
		if same, err := sameFile(device, at); err != nil || same {
			return err
		}
		if err := errors.Join(f.d.Devices.DetachFileDevice(at), f.unbindDevice(at)); err != nil {
			return err
		}
	}
	f.mapping.Lock()
	err = makeFile(at)
	f.mapping.Unlock()
	if err != nil {
		return err
	}
	return f.d.Mounts.Bind(device, at, false)
}

func sameFile(a, b string) (bool, error) {
	x, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y), err
}

func makeFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return err
	}
	return file.Close()
}

// linkDevice makes the link anew: after a boot an old one may name another device.
func linkDevice(device, at string) error {
	if err := os.MkdirAll(filepath.Dir(at), 0o750); err != nil {
		return err
	}
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(device, at)
}

// unmapDevice undoes mapDevice: upstream's UnmapBlockVolume. It is a success when there is nothing.
func (f *Manager) unmapDevice(t volume.BlockVolumePlugin, uid types.UID, specName string) error {
	m := f.deviceMapOf(t, uid, specName)
	if err := f.d.Devices.DetachFileDevice(m.global); err != nil {
		return fmt.Errorf("%s is kept open: %w", m.global, err)
	}
	if err := os.Remove(m.link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = os.Remove(filepath.Dir(m.link)) // others of the Pod may be there
	return f.unbindDevice(m.global)
}

// unbindDevice unbinds what is bound at a file, and removes the file and the directories that held
// nothing but it.
func (f *Manager) unbindDevice(at string) error {
	if err := f.d.Mounts.Unmount(at); err != nil {
		return err
	}
	f.mapping.Lock() // another Pod's may be made in the directory
	defer f.mapping.Unlock()
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := filepath.Dir(at); filepath.Base(dir) != volumeDevicesDir; dir = filepath.Dir(dir) {
		if os.Remove(dir) != nil {
			break
		}
	}
	return nil
}

// unmapOrphans unmaps devices for Pods that known does not have and that have no directory: what
// is left of Pods of which nothing is stored.
func (f *Manager) unmapOrphans(known func(types.UID) bool) error {
	var failed []error
	for _, row := range f.d.Plugins {
		t, ok := row.Plugin.(volume.BlockVolumePlugin)
		if !ok {
			continue
		}
		mapped, err := fs.Glob(os.DirFS(f.d.Root), filepath.Join(t.GlobalMapPath("*"), "*"))
		failed = append(failed, err)
		for _, at := range mapped {
			uid := types.UID(filepath.Base(at))
			if _, err := os.Lstat(f.podDir(uid)); known(uid) || !errors.Is(err, fs.ErrNotExist) {
				continue
			}
			at = filepath.Join(f.d.Root, at)
			if err := f.d.Devices.DetachFileDevice(at); err != nil {
				failed = append(failed, err)
				continue
			}
			failed = append(failed, f.unbindDevice(at))
		}
	}
	return errors.Join(failed...)
}

// recordMapped says where the device is mapped, in upstream's words.
func (f *Manager) recordMapped(pod *v1.Pod, t volume.BlockVolumePlugin, specName string) {
	m := f.deviceMapOf(t, pod.UID, specName)
	for _, where := range []string{fmt.Sprintf("globalMapPath %q", filepath.Dir(m.global)),
		fmt.Sprintf("volumeMapPath %q", filepath.Dir(m.link))} {
		f.d.Recorder.Event(events.RefOf(pod, ""), v1.EventTypeNormal, "SuccessfulMountVolume",
			fmt.Sprintf("MapVolume.MapPodDevice succeeded for volume %q %s", specName, where))
	}
}
