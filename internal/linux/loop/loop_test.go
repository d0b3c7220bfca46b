package loop_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/linux/loop"
	"github.com/gantry-project/gantry/test/expect"
)

// image is a device of a new image file.
func image(t *testing.T, name string) (file, dev string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loop devices need root")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("no loop devices")
	}
	file = filepath.Join(t.TempDir(), name, "disk.img")
	expect.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	expect.NoError(t, os.WriteFile(file, nil, 0o600))
	expect.NoError(t, os.Truncate(file, 1<<20))
	dev, err := loop.Attach(file)
	expect.NoError(t, err)
	t.Cleanup(func() { expect.NoError(t, loop.Detach(file)) })
	return file, dev
}

// bound is a file that a device is bound to.
func bound(t *testing.T, dev string) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "uid")
	expect.NoError(t, os.WriteFile(at, nil, 0o600))
	bind(t, dev, at)
	return at
}

func bind(t *testing.T, dev, at string) {
	t.Helper()
	expect.NoError(t, unix.Mount(dev, at, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(at, 0) }) // it may be unmounted already
}

func backing(t *testing.T, dev string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(dev), "loop/backing_file"))
	if os.IsNotExist(err) {
		return ""
	}
	expect.NoError(t, err)
	return strings.TrimSpace(string(text))
}

// A device is kept open by one loop device for each path it is bound at, however often that is
// asked for: it is there as long as one keeps it, though its own image is taken away.
func TestADeviceIsKeptOpenByEachPath(t *testing.T) {
	file, dev := image(t, "held")
	a, b := bound(t, dev), bound(t, dev)
	d := loop.FileDevices{}
	var kept []string
	for _, at := range []string{a, b, a} {
		by, err := d.AttachFileDevice(at)
		expect.NoError(t, err)
		if got := backing(t, by); got != at {
			t.Errorf("%s is of %s, want %s", by, got, at)
		}
		kept = append(kept, by)
	}
	t.Cleanup(func() {
		for _, at := range []string{a, b} {
			expect.NoError(t, d.DetachFileDevice(at))
		}
	})
	if kept[0] != kept[2] || kept[0] == kept[1] {
		t.Errorf("got the loop devices %v, want one for each path", kept)
	}
	expect.NoError(t, loop.Detach(file)) // the kernel does it when nobody has it open
	expect.NoError(t, d.DetachFileDevice(a))
	expect.NoError(t, unix.Unmount(a, 0))
	if got := backing(t, dev); got != file {
		t.Errorf("while the second path keeps it open, %s is of %q, want %s", dev, got, file)
	}
	expect.NoError(t, d.DetachFileDevice(b))
	expect.NoError(t, d.DetachFileDevice(b))
	if got := backing(t, dev); got != "" {
		t.Errorf("kept open by nobody, %s is of %q, want nothing", dev, got)
	}
}

// A path that has another device now is kept open anew.
func TestAnotherDeviceAtThePath(t *testing.T) {
	_, first := image(t, "first")
	_, second := image(t, "second")
	at := bound(t, first)
	d := loop.FileDevices{}
	by, err := d.AttachFileDevice(at)
	expect.NoError(t, err)
	bind(t, second, at)                                             // over the other
	t.Cleanup(func() { expect.NoError(t, d.DetachFileDevice(at)) }) // a path that is held open stays mounted
	again, err := d.AttachFileDevice(at)
	expect.NoError(t, err)
	for want, dev := range map[string]string{first: by, second: again} {
		var st unix.Stat_t
		expect.NoError(t, unix.Stat(want, &st))
		f, err := os.Open(again)
		expect.NoError(t, err)
		info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
		expect.NoError(t, err)
		expect.NoError(t, f.Close())
		if is := info.Inode == st.Ino; is != (want == second) {
			t.Errorf("%s keeps %s open: %t, want only %s", dev, want, is, second)
		}
	}
}

// What is gone is no error to take away, and one to keep.
func TestAPathThatIsGone(t *testing.T) {
	d := loop.FileDevices{}
	if err := d.DetachFileDevice(filepath.Join(t.TempDir(), "no/such")); err != nil {
		t.Errorf("got %v, want no error", err)
	}
	if by, err := d.AttachFileDevice(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Errorf("got %s and no error, want one", by)
	}
}
