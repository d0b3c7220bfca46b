// Package local serves local PersistentVolumes: a directory or block device of the node.
//
// In: the path. Out: the path itself, checked, or the file system of a block device, which is
// formatted if it is blank and mounted once for all Pods of the node; it is given to the group of
// the first Pod that uses it. Nothing but such mounts is ever removed.
package local

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// Plugin is local.
type Plugin struct{ Mounts volume.Mounter }

// Name is the field of v1.PersistentVolumeSource.
func (Plugin) Name() string { return "local" }

// Dir is the plugin's directory: it keeps which Pods use which path.
func (Plugin) Dir() string { return "kubernetes.io~local-volume" }

// RequiresRemount is false.
func (Plugin) RequiresRemount(volume.Spec) bool { return false }

// GlobalMapPath is upstream's.
func (p Plugin) GlobalMapPath(specName string) string {
	return filepath.Join("plugins", p.Dir(), "volumeDevices", specName)
}

// SetUp checks the path, and gives a directory to the Pod's group.
func (p Plugin) SetUp(_ context.Context, a volume.MounterArgs) (volume.Mounted, error) {
	m := volume.Mounted{Path: a.Spec.PersistentVolume.Spec.Local.Path, ReadOnly: a.Spec.ReadOnly,
		Device: a.Spec.Block(), Size: volume.SizeOfMount}
	if m.Device {
		m.Size = volume.SizeOfBlock
	}
	info, err := os.Stat(m.Path)
	if err != nil {
		return m, err
	}
	device := info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0
	switch {
	case m.Device && !device:
		return m, fmt.Errorf("path %s of a volume of mode Block is not a block device", m.Path)
	case m.Device:
		return m, nil
	case device:
		m.Path, err = globalPath(a.MetaDir, a.Spec.Name())
		if err != nil {
			return m, err
		}
	case !info.IsDir():
		return m, fmt.Errorf("path %s of a volume of mode Filesystem is not a directory: only directory and block "+
			"device are supported", m.Path)
	}
	pathLocks.LockKey(m.Path)
	defer func() { _ = pathLocks.UnlockKey(m.Path) }() // never an error: this goroutine holds it
	if device {
		if err := p.mountDevice(a, m.Path); err != nil {
			return m, err
		}
	}
	return m, chownIfUnused(a, m)
}
