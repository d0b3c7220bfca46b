package volumemanager

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/reason"
)

// PrepareSubPath returns the host path to mount for a subPath. The path is opened without following
// symbolic links out of the volume, directories that are missing are made, and what was opened is
// pinned by a bind mount below the Pod's directory, which UnmountVolumes removes. The error is a
// *reason.Refusal CreateContainerConfigError.
func (f *Manager) PrepareSubPath(ctx context.Context, s SubPath) (string, error) {
	at := filepath.Join(f.podDir(s.Pod.UID), subpathsDir, s.Volume.Name, s.Container, strconv.Itoa(s.Index))
	if err := f.bindSubPath(s, at); err != nil {
		klog.FromContext(ctx).Error(err, "subPath not prepared", "pod", klog.KObj(s.Pod), "container", s.Container,
			"volume", s.Volume.Name, "subPath", s.Path)
		return "", &reason.Refusal{
			Code: reason.CreateContainerConfigError, By: "kubelet/volume",
			Detail: fmt.Sprintf("failed to prepare subPath for volumeMount %q of container %q", s.Volume.Name,
				s.Container),
			Fix: "the subPath must stay inside the volume: " + err.Error(),
		}
	}
	return at, nil
}

func (f *Manager) bindSubPath(s SubPath, at string) error {
	top, err := os.Stat(s.Volume.Path)
	if err != nil {
		return err
	}
	if !top.IsDir() {
		return fmt.Errorf("volume %s is a file, it has no paths below it", s.Volume.Name)
	}
	fd, err := f.d.Mounts.OpenBeneath(s.Volume.Path, s.Path, top.Mode())
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // opened for its path only: nothing can be lost
	source := fmt.Sprintf("/proc/self/fd/%d", fd)
	now, err := os.Stat(source)
	if err != nil {
		return err
	}
	if mounted, err := f.d.Mounts.IsMountPoint(at); err != nil {
		return err
	} else if mounted {
		if old, err := os.Stat(at); err == nil && os.SameFile(old, now) {
			return nil
		}
		if err := f.d.Mounts.Unmount(at); err != nil {
			return err
		}
	}
	if err := makeMountTarget(at, now.IsDir()); err != nil {
		return err
	}
	return f.d.Mounts.Bind(source, at, false)
}

// makeMountTarget makes an empty directory or file to mount on, of the kind of what is mounted.
func makeMountTarget(at string, dir bool) error {
	if err := os.MkdirAll(filepath.Dir(at), 0o750); err != nil {
		return err
	}
	if old, err := os.Lstat(at); err == nil && old.IsDir() != dir {
		if err := os.Remove(at); err != nil {
			return err
		}
	}
	if dir {
		return os.MkdirAll(at, 0o750)
	}
	file, err := os.OpenFile(at, os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	return file.Close()
}
