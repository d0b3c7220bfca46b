package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	mountutils "k8s.io/mount-utils"
	"k8s.io/utils/exec"
)

const mountinfo = "/proc/self/mountinfo"

// Mounter mounts. It needs CAP_SYS_ADMIN.
type Mounter struct{}

// Tmpfs mounts a file system in memory on dir, which must exist. size is in bytes, 0 is the
// kernel's own bound (half of memory). It stays out of swap where the kernel can promise that
// (6.4).
func (Mounter) Tmpfs(dir string, size int64, mode fs.FileMode) error {
	options := []string{fmt.Sprintf("mode=%04o", bits(mode))}
	if size > 0 {
		options = append(options, fmt.Sprintf("size=%d", size))
	}
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, strings.Join(append(options, "noswap"), ","))
	if errors.Is(err, unix.EINVAL) {
		err = unix.Mount("tmpfs", dir, "tmpfs", 0, strings.Join(options, ","))
	}
	if err != nil {
		return fmt.Errorf("mount tmpfs on %s: %w", dir, err)
	}
	return nil
}

// KeepsTmpfsFromSwap tells whether the kernel can promise that a file system in memory stays out of
// swap: it mounts one on a directory of its own below dir, and unmounts it.
func KeepsTmpfsFromSwap(dir string) (bool, error) {
	at, err := os.MkdirTemp(dir, "noswap-")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.Remove(at) }() // an empty directory that stays does no harm
	err = unix.Mount("tmpfs", at, "tmpfs", 0, "size=4k,noswap")
	if errors.Is(err, unix.EINVAL) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("mount tmpfs on %s: %w", at, err)
	}
	return true, unix.Unmount(at, unix.MNT_DETACH)
}

// Hugetlbfs mounts a file system of huge pages of one size, like 2Mi, on dir, which must exist.
func (Mounter) Hugetlbfs(dir, pageSize string, mode fs.FileMode) error {
	size := strings.TrimSuffix(pageSize, "i") // the kernel counts by 1024 with K, M, G
	if err := unix.Mount("nodev", dir, "hugetlbfs", 0, fmt.Sprintf("pagesize=%s,mode=%04o", size, bits(mode))); err !=
		nil {
		return fmt.Errorf("mount hugetlbfs with pages of %s on %s: %w", pageSize, dir, err)
	}
	return nil
}

// Mount mounts the file system of a server or device on target, which must exist, by mount(8) and
// its helpers.
func (Mounter) Mount(source, target, kind string, options []string) error {
	return mountutils.NewWithoutSystemd("").Mount(source, target, kind, options)
}

// FormatAndMount mounts the file system of a block device on target, which must exist; a device
// that is blank is formatted first. One that has another file system than kind is not mounted: the
// error is a MountError of k8s.io/mount-utils of the type FilesystemMismatch then.
func (Mounter) FormatAndMount(source, target, kind string, options []string) error {
	m := mountutils.NewSafeFormatAndMount(mountutils.NewWithoutSystemd(""), exec.New())
	return m.FormatAndMount(source, target, kind, options)
}

// Bind makes source, a file or directory, visible at target, which must exist and be of the same
// kind.
func (Mounter) Bind(source, target string, readOnly bool) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", source, target, err)
	}
	if !readOnly {
		return nil
	}
	if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return errors.Join(fmt.Errorf("remount %s read-only: %w", target, err),
			unix.Unmount(target, unix.UMOUNT_NOFOLLOW))
	}
	return nil
}

// Unmount unmounts the topmost mount of target. It succeeds if there is none.
func (Mounter) Unmount(target string) error {
	err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return fmt.Errorf("unmount %s: %w", target, err)
}

// IsMountPoint reports whether path is the root of a mount, bind mounts included; false if it does
// not exist.
func (Mounter) IsMountPoint(path string) (bool, error) {
	var st unix.Statx_t
	// do not contact a file server, which may be down
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC, 0, &st)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("statx %s: %w", path, err)
	}
	if st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}
	points, err := Mounter{}.MountPoints(path) // kernels before 5.8
	return slices.Contains(points, path), err
}

// MountPoints lists the mount points at dir and below, the latest mounted first, which is the order
// to unmount them in.
func (Mounter) MountPoints(dir string) ([]string, error) {
	infos, err := mountutils.ParseMountInfo(mountinfo)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", mountinfo, err)
	}
	real, err := resolved(dir, infos)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var points []string
	for _, m := range infos {
		if m.MountPoint == real || strings.HasPrefix(m.MountPoint, real+"/") {
			points = append(points, dir+strings.TrimPrefix(m.MountPoint, real))
		}
	}
	slices.Reverse(points)
	return points, nil
}

// resolved returns dir without symbolic links. A mount point is not touched, since its server may
// not answer.
func resolved(dir string, infos []mountutils.MountInfo) (string, error) {
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return "", err
	}
	real := filepath.Join(parent, filepath.Base(dir))
	if slices.ContainsFunc(infos, func(m mountutils.MountInfo) bool { return m.MountPoint == real }) {
		return real, nil
	}
	return filepath.EvalSymlinks(real)
}

// OpenBeneath opens a path below root with O_PATH. Symbolic links are followed if they stay below
// root. With a mode, missing directories are created. The caller closes the descriptor;
// /proc/self/fd/N names the opened file even if the path changes.
func (Mounter) OpenBeneath(root, sub string, mkdir fs.FileMode) (int, error) {
	return openBeneath(root, sub, mkdir)
}

// DirMounter replaces Mounter where mounting is not allowed, as in unprivileged tests: a tmpfs is
// the directory itself, a bind mount is a symbolic link.
type DirMounter struct{}

// Tmpfs sets the directory's mode.
func (DirMounter) Tmpfs(dir string, _ int64, mode fs.FileMode) error { return os.Chmod(dir, mode) }

// Hugetlbfs sets the directory's mode.
func (DirMounter) Hugetlbfs(dir, _ string, mode fs.FileMode) error { return os.Chmod(dir, mode) }

// Mount returns an error: a network file system has no stand-in.
func (DirMounter) Mount(source, target, kind string, _ []string) error {
	return fmt.Errorf("mount %s %s on %s: mounting is not allowed here", kind, source, target)
}

// FormatAndMount is refused.
func (DirMounter) FormatAndMount(source, target, kind string, _ []string) error {
	return fmt.Errorf("format %s as %s for %s: not without mounts", source, kind, target)
}

// Bind replaces target, which must be empty, by a link to source.
func (DirMounter) Bind(source, target string, _ bool) error {
	source, err := filepath.EvalSymlinks(source)
	if err != nil {
		return err
	}
	if err := os.Remove(target); err != nil {
		return err
	}
	return os.Symlink(source, target)
}

// Unmount removes the link.
func (DirMounter) Unmount(target string) error {
	if st, err := os.Lstat(target); err == nil && st.Mode()&fs.ModeSymlink != 0 {
		return os.Remove(target)
	}
	return nil
}

// IsMountPoint is true for a link.
func (DirMounter) IsMountPoint(path string) (bool, error) {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && st.Mode()&fs.ModeSymlink != 0, err
}

// MountPoints finds none.
func (DirMounter) MountPoints(string) ([]string, error) { return nil, nil }

// OpenBeneath is Mounter's.
func (DirMounter) OpenBeneath(root, sub string, mkdir fs.FileMode) (int, error) {
	return openBeneath(root, sub, mkdir)
}
