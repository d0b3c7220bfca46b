package csidriver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	mountutils "k8s.io/mount-utils"

	"github.com/gantry-project/gantry/internal/linux/loop"
)

// canMakeImages tells whether the node has what image volumes need.
var canMakeImages = sync.OnceValue(func() bool {
	_, control := os.Stat("/dev/loop-control")
	return fileSystems[defaultFS].made() == nil && control == nil
})

// run runs a program; what it says is in the error. It ends with this process, however that does.
func run(ctx context.Context, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the kernel goes by the thread that started it
	defer runtime.UnlockOSThread()
	out, err := c.CombinedOutput()
	if err == nil {
		return nil
	}
	text := strings.TrimSpace(string(out))
	if strings.Contains(text, "No space left on device") || strings.Contains(text, "Disk quota exceeded") {
		err = unix.ENOSPC
	}
	return fmt.Errorf("%s: %w: %s", name, err, text)
}

// copyData copies an image or a directory; where the disk's file system shares blocks, nothing is
// written. The copy is on the disk when it returns.
func copyData(ctx context.Context, from, to string) error {
	if info, err := os.Stat(to); err == nil && info.IsDir() { // made already: what is in it
		from += "/."
	}
	if err := run(ctx, "cp", "-a", "--reflink=auto", "--sparse=always", from, to); err != nil {
		return err
	}
	f, err := os.Open(to)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}

// cloneFile copies an image that is written to meanwhile, in one step: the copy shares its blocks
// (FICLONE, ioctl_ficlone(2)). It is refused where the disk's file system does not do that.
func cloneFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = unix.IoctlFileClone(int(dst.Fd()), int(src.Fd()))
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EINVAL) ||
		errors.Is(err, unix.ENOTTY) {
		err = status.Error(codes.FailedPrecondition, "the volume, a raw device, is in use, and the disk's file "+
			"system does not share blocks (xfs and btrfs do): it would change while it is copied. Stop the Pods "+
			"that use it first")
	}
	if err == nil {
		err = dst.Sync()
	}
	return errors.Join(err, dst.Close())
}

// growImage makes a sparse file at least so big.
func growImage(file string, size int64) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() >= size {
		return err
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	return f.Sync()
}

// mountsOf are the places where the volume is mounted, the latest first.
func mountsOf(s recordDir, v *record) ([]string, error) {
	infos, err := mountutils.ParseMountInfo("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	dev := ""
	if v.Kind == kindImage {
		image := s.image(v.ID)
		if real, err := filepath.EvalSymlinks(image); err == nil {
			image = real
		}
		if dev, err = loop.Device(image); err != nil {
			return nil, err
		}
	}
	var out []string
	for i := len(infos) - 1; i >= 0; i-- {
		m := infos[i]
		switch {
		case dev != "" && (m.Source == dev || m.Root == strings.TrimPrefix(dev, "/dev")):
			out = append(out, m.MountPoint)
		case v.Kind == kindDirectory && (m.Root == "/"+v.ID+"/data" ||
			strings.HasSuffix(m.Root, "/volumes/"+v.ID+"/data")): // below whatever is mounted at the driver's directory
			out = append(out, m.MountPoint)
		}
	}
	return out, nil
}
