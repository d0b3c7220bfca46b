// Package volumedir makes and removes volume directories.
//
// In: a directory, the Mounts port. Out: the directory as a volume needs it, or gone; what is
// mounted in it is unmounted first and never deleted.
package volumedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// Mode of a volume's directory: the Pod decides who may write.
const Mode fs.FileMode = 0o777

// MakeHugetlbfs makes the directory a file system of huge pages of a size like 2Mi. It can be
// repeated.
func MakeHugetlbfs(m volume.Mounter, dir, pageSize string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	if mounted, err := m.IsMountPoint(dir); err != nil || mounted {
		return err
	}
	return m.Hugetlbfs(dir, pageSize, Mode)
}

// Make makes the directory, or with memory a tmpfs of at most size bytes on it. It can be repeated.
func Make(m volume.Mounter, dir string, memory bool, size int64) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	if memory {
		mounted, err := m.IsMountPoint(dir)
		if err != nil || mounted {
			return err
		}
		return m.Tmpfs(dir, size, Mode|fs.ModeSticky)
	}
	st, err := os.Stat(dir)
	if err != nil || st.Mode().Perm() == Mode {
		return err
	}
	return os.Chmod(dir, Mode|st.Mode()&fs.ModeSetgid)
}

// Remove unmounts whatever is mounted at dir or below, and removes it. A mount that stays keeps
// everything: deleting through it would destroy what is not ours. What is mounted is looked up and
// not touched first, so that a file server that is away only keeps the unmounting.
func Remove(m volume.Mounter, dir string) error {
	points, err := m.MountPoints(dir)
	if err != nil {
		return err
	}
	for _, p := range points {
		if err := m.Unmount(p); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	mounted, err := m.MountPoints(dir)
	if err != nil {
		return err
	}
	if len(mounted) > 0 {
		return fmt.Errorf("%s is not removed, still mounted below it: %s", dir, strings.Join(mounted, ", "))
	}
	return os.RemoveAll(dir)
}

// Empty removes a directory that nothing is mounted on and that holds nothing: one that was made to
// mount on, without effect.
func Empty(m volume.Mounter, dir string) error {
	if mounted, err := m.IsMountPoint(dir); err != nil || mounted {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
