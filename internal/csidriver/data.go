package csidriver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	mountutils "k8s.io/mount-utils"
)

const defaultFS = "ext4"

// canMakeImages tells whether the node has what image volumes need.
var canMakeImages = sync.OnceValue(func() bool {
	_, err := exec.LookPath("mkfs." + defaultFS)
	_, control := os.Stat("/dev/loop-control")
	return err == nil && control == nil
})

// run runs a program; what it says is in the error.
func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
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
// written.
func copyData(ctx context.Context, from, to string) error {
	return run(ctx, "cp", "-a", "--reflink=auto", "--sparse=always", from, to)
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
	err := run(ctx, "fsck."+defaultFS, "-p", dev)
	var exit *exec.ExitError
	if ok := asExit(err, &exit); ok && exit.ExitCode() == 1 { // repaired
		return nil
	}
	return err
}

// growFS makes the file system as big as its device.
func growFS(ctx context.Context, dev string) error { return run(ctx, "resize2fs", dev) }

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
	data := s.dataDir(v.ID)
	var out []string
	for i := len(infos) - 1; i >= 0; i-- {
		m := infos[i]
		switch {
		case dev != "" && (m.Source == dev || m.Root == strings.TrimPrefix(dev, "/dev")):
			out = append(out, m.MountPoint)
		case v.Kind == kindDirectory && strings.HasSuffix(data, m.Root) && len(m.Root) > len("/volumes/")+len(v.ID):
			out = append(out, m.MountPoint)
		}
	}
	return out, nil
}
