package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// openBeneath resolves sub with openat2, so that nobody can replace a directory by a link between
// check and use.
func openBeneath(root, sub string, mkdir fs.FileMode) (int, error) {
	if !filepath.IsLocal(sub) {
		return -1, fmt.Errorf("path %q is not below %s", sub, root)
	}
	top, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	defer closeFD(top)
	sub = filepath.Clean(sub)
	fd, err := beneath(top, sub)
	if err == nil || mkdir == 0 || !errors.Is(err, unix.ENOENT) {
		return fd, wrap(err, root, sub)
	}
	return makeBeneath(top, root, sub, mkdir)
}

// makeBeneath opens one path element after the other, creating it in its opened parent if
// necessary.
func makeBeneath(top int, root, sub string, mode fs.FileMode) (int, error) {
	parent, err := unix.Dup(top)
	if err != nil {
		return -1, wrap(err, root, sub)
	}
	parts := strings.Split(sub, "/")
	for i, name := range parts {
		at := strings.Join(parts[:i+1], "/")
		fd, err := beneath(top, at)
		if errors.Is(err, unix.ENOENT) {
			if err = unix.Mkdirat(parent, name, uint32(mode.Perm())); err == nil || errors.Is(err, unix.EEXIST) {
				fd, err = beneath(top, at)
			}
			if err == nil {
				err = chmodFD(fd, mode) // past the umask
			}
		}
		closeFD(parent)
		if err != nil {
			if fd >= 0 {
				closeFD(fd)
			}
			return -1, wrap(err, root, at)
		}
		parent = fd
	}
	return parent, nil
}

func beneath(top int, sub string) (int, error) {
	fd, err := unix.Openat2(top, sub, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	if errors.Is(err, unix.ENOSYS) { // kernels before 5.6: no links at all
		return walkNoFollow(top, sub)
	}
	if err != nil {
		return -1, err
	}
	return fd, nil
}

func walkNoFollow(top int, sub string) (int, error) {
	fd, err := unix.Dup(top)
	if err != nil {
		return -1, err
	}
	for name := range strings.SplitSeq(sub, "/") {
		next, err := unix.Openat(fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		closeFD(fd)
		if err != nil {
			return -1, err
		}
		var st unix.Stat_t
		if err := unix.Fstat(next, &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK {
			closeFD(next)
			return -1, errors.Join(err, unix.ELOOP)
		}
		fd = next
	}
	return fd, nil
}

// closeFD closes a descriptor that was opened for its path only: nothing was written, so nothing
// can be lost.
func closeFD(fd int) { _ = unix.Close(fd) }

// chmodFD changes the mode behind an O_PATH descriptor, which fchmod refuses.
func chmodFD(fd int, mode fs.FileMode) error {
	return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), bits(mode))
}

// bits is the mode as the kernel writes it.
func bits(mode fs.FileMode) uint32 {
	b := uint32(mode.Perm())
	if mode&fs.ModeSetgid != 0 {
		b |= unix.S_ISGID
	}
	if mode&fs.ModeSticky != 0 {
		b |= unix.S_ISVTX
	}
	return b
}

func wrap(err error, root, sub string) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ELOOP) {
		return fmt.Errorf("%s leads out of %s by a symbolic link or a parent directory: %w", sub, root, err)
	}
	return &fs.PathError{Op: "open", Path: filepath.Join(root, sub), Err: err}
}
