package csidriver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
)

const defaultFS = "ext4"

// canMakeImages tells whether the node has what image volumes need.
var canMakeImages = sync.OnceValue(func() bool {
	_, err := exec.LookPath("mkfs." + defaultFS)
	_, control := os.Stat("/dev/loop-control")
	return err == nil && control == nil
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
	if strings.Contains(text, "No space left on device") {
		err = unix.ENOSPC
	}
	return fmt.Errorf("%s: %w: %s", name, err, text)
}

// copyData copies an image or a directory; where the disk's file system shares blocks, nothing is
// written. The copy is on the disk when it returns.
func copyData(ctx context.Context, from, to string) error {
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

// makeFS makes a file system on a device.
func makeFS(ctx context.Context, dev string) error {
	return run(ctx, "mkfs."+defaultFS, "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1", dev)
}

// checkFS repairs what a node that was cut off left.
func checkFS(ctx context.Context, dev string) error {
	if _, err := exec.LookPath("fsck." + defaultFS); err != nil {
		return nil
	}
	return repaired(run(ctx, "fsck."+defaultFS, "-p", dev))
}

// repaired takes fsck's "errors were corrected" for what it is: no error.
func repaired(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil
	}
	return err
}

// growFS makes the file system as big as its device.
func growFS(ctx context.Context, dev string) error { return run(ctx, "resize2fs", dev) }

// growMounted does so while it is used. The kernel lets only processes with CAP_SYS_RESOURCE; the
// error says what grows the volume else.
func growMounted(ctx context.Context, dev string) error {
	err := growFS(ctx, dev)
	if err != nil && strings.Contains(err.Error(), "Permission denied to resize filesystem") {
		return fmt.Errorf("this process may not resize a mounted file system (CAP_SYS_RESOURCE is missing): the "+
			"volume grows when its Pods are started again: %w", err)
	}
	return err
}

// growUnmounted does so before it is mounted. The whole file system is checked first, as resize2fs
// wants it; nothing is done for one that is as big as its device.
func growUnmounted(ctx context.Context, dev string) error {
	if err := resizeLoop(dev); err != nil {
		return err
	}
	size, err := deviceSize(dev)
	if err != nil {
		return err
	}
	has, err := fsSize(dev)
	if err != nil || size-has < extBlock {
		return err
	}
	if err := repaired(run(ctx, "fsck."+defaultFS, "-f", "-p", dev)); err != nil {
		return err
	}
	return growFS(ctx, dev)
}

// deviceSize is how many bytes a device has.
func deviceSize(dev string) (int64, error) {
	f, err := os.Open(dev)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.Seek(0, io.SeekEnd)
}

// Of the superblock of ext4, https://docs.kernel.org/filesystems/ext4/super.html.
const (
	superblockAt   = 1024
	blocksLowAt    = 0x4
	logBlockSizeAt = 0x18
	incompatAt     = 0x60
	blocksHighAt   = 0x150
	incompat64Bit  = 0x80
	magicAt        = 0x38
	extMagic       = 0xef53
	extBlock       = 4096 // of which a rest may be left over at the end of a device
)

// hasFS tells whether a device holds a file system of ext4's family.
func hasFS(dev string) (bool, error) {
	block, err := readSuperblock(dev)
	return err == nil && binary.LittleEndian.Uint16(block[magicAt:]) == extMagic, err
}

// readSuperblock is the block that says what a file system is, whether there is one or not.
func readSuperblock(dev string) ([]byte, error) {
	f, err := os.Open(dev)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	block := make([]byte, 1024)
	if _, err := f.ReadAt(block, superblockAt); err != nil {
		return nil, fmt.Errorf("reading the superblock of %s: %w", dev, err)
	}
	return block, nil
}

// fsSize is how many bytes the file system on a device spans.
func fsSize(dev string) (int64, error) {
	block, err := readSuperblock(dev)
	if err != nil {
		return 0, err
	}
	blocks := uint64(binary.LittleEndian.Uint32(block[blocksLowAt:]))
	if binary.LittleEndian.Uint32(block[incompatAt:])&incompat64Bit != 0 {
		blocks |= uint64(binary.LittleEndian.Uint32(block[blocksHighAt:])) << 32
	}
	return int64(blocks << (10 + binary.LittleEndian.Uint32(block[logBlockSizeAt:])%16)), nil
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
		if dev, err = loopDevice(image); err != nil {
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
