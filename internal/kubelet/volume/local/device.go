package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// defaultFSType is what a blank device is formatted with when its volume names nothing.
const defaultFSType = "ext4"

// mountsDir is where devices are mounted, below the kubelet's directory, as upstream.
const mountsDir = "plugins/kubernetes.io/local-volume/mounts"

// globalPath is where the device of a PersistentVolume is mounted, for all Pods of the node. meta
// is <root>/pods/<uid>/plugins/<plugin>/<name>.
func globalPath(meta, specName string) (string, error) {
	if meta == "" || specName == "" {
		return "", errors.New("the kubelet keeps no directory for the volume")
	}
	root := meta
	for range 5 {
		root = filepath.Dir(root)
	}
	return filepath.Join(root, mountsDir, specName), nil
}

// mountDevice mounts the volume's device unless it is mounted, and formats one that is blank.
func (p Plugin) mountDevice(a volume.MounterArgs, at string) error {
	mounted, err := p.Mounts.IsMountPoint(at)
	if err != nil || mounted {
		return err
	}
	if err := os.MkdirAll(at, 0o750); err != nil {
		return err
	}
	pv := a.Spec.PersistentVolume
	source, kind := pv.Spec.Local.Path, defaultFSType
	if pv.Spec.Local.FSType != nil {
		kind = cmp.Or(*pv.Spec.Local.FSType, kind)
	}
	options := pv.Spec.MountOptions
	if a.Spec.ReadOnly {
		options = append([]string{"ro"}, options...)
	}
	if err := p.Mounts.FormatAndMount(source, at, kind, options); err != nil {
		_ = os.Remove(at) // an empty directory that stays does no harm
		return volume.PartError{Part: volume.MountDevice, Err: fmt.Errorf("local: failed to mount device %s at %s "+
			"(fstype: %s), error %w", source, at, kind, err)}
	}
	return nil
}

// TearDown unmounts the volume's device after its last Pod. A directory is the node's and stays.
func (p Plugin) TearDown(_ context.Context, a volume.UnmounterArgs) error {
	at, err := globalPath(a.MetaDir, a.Data.SpecVolID)
	if err != nil {
		return nil // nothing was mounted for a volume of which nothing is stored
	}
	pathLocks.LockKey(at)
	defer func() { _ = pathLocks.UnlockKey(at) }() // never an error: this goroutine holds it
	if _, err := os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	mark := filepath.Join(a.MetaDir, pathFile)
	if err := os.Remove(mark); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	used, err := isMountedByOtherVolume(a.MetaDir, at)
	if err != nil || used {
		return err
	}
	if err := p.Mounts.Unmount(at); err != nil {
		return err
	}
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
