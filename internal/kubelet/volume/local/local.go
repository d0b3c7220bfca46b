// Package local serves local PersistentVolumes: a directory or block device of the node.
//
// In: the path. Out: the path itself, checked; a directory is given to the group of the first Pod
// of the node that uses it. Nothing is mounted, and nothing is ever removed.
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
type Plugin struct{}

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
func (Plugin) SetUp(_ context.Context, a volume.MounterArgs) (volume.Mounted, error) {
	m := volume.Mounted{Path: a.Spec.PersistentVolume.Spec.Local.Path, ReadOnly: a.Spec.ReadOnly,
		Device: a.Spec.Block(), Size: volume.SizeOfMount}
	if m.Device {
		m.Size = volume.SizeOfBlock
	}
	return m, setUp(a, m)
}

// TearDown does nothing: the path is the node's.
func (Plugin) TearDown(context.Context, volume.UnmounterArgs) error { return nil }

func setUp(a volume.MounterArgs, m volume.Mounted) error {
	info, err := os.Stat(m.Path)
	switch {
	case err != nil:
		return err
	case m.Device && (info.Mode()&fs.ModeDevice == 0 || info.Mode()&fs.ModeCharDevice != 0):
		return fmt.Errorf("path %s of a volume of mode Block is not a block device", m.Path)
	case m.Device:
		return nil
	case !info.IsDir():
		return fmt.Errorf("path %s of a volume of mode Filesystem is not a directory: block devices are not formatted "+
			"and mounted by this node, mount it on a directory or use mode Block", m.Path)
	}
	pathLocks.LockKey(m.Path)
	defer func() { _ = pathLocks.UnlockKey(m.Path) }() // never an error: this goroutine holds it
	return chownIfUnused(a, m)
}
