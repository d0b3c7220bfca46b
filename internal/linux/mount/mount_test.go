package mount_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/linux/mount"
	"github.com/gantry-project/gantry/test/expect"
)

func needRoot(t *testing.T) mount.Mounter {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	return mount.Mounter{}
}

func TestTmpfs(t *testing.T) {
	m, dir := needRoot(t), t.TempDir()
	t.Cleanup(func() { expect.NoError(t, m.Unmount(dir)) })
	if on, err := m.IsMountPoint(dir); on || err != nil {
		t.Fatalf("got %v, %v, want on false and no error", on, err)
	}
	if err := m.Tmpfs(dir, 1<<20, os.ModeSticky|0o777); err != nil {
		t.Fatal(err)
	}
	if on, err := m.IsMountPoint(dir); !on || err != nil {
		t.Fatalf("got %v, %v, want on true and no error", on, err)
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil || st.Type != unix.TMPFS_MAGIC ||
		st.Blocks*uint64(st.Bsize) != 1<<20 {
		t.Errorf("type %x, size %d", st.Type, st.Blocks*uint64(st.Bsize))
	}
	if st, _ := os.Stat(dir); st.Mode() != os.ModeDir|os.ModeSticky|0o777 {
		t.Errorf("mode %v, want %v", st.Mode(), os.ModeDir|os.ModeSticky|0o777)
	}
	if err := os.WriteFile(dir+"/f", make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("2 MiB fit into 1 MiB: %v", err)
	}
	for range 2 {
		if err := m.Unmount(dir); err != nil {
			t.Error(err)
		}
	}
	if err := m.Unmount(dir + "/none"); err != nil {
		t.Error(err)
	}
}

func TestBindAndUnder(t *testing.T) {
	m, root := needRoot(t), t.TempDir()
	source, target := filepath.Join(root, "source"), filepath.Join(root, "a/target")
	expect.NoError(t, os.Mkdir(source, 0o755))
	expect.NoError(t, os.MkdirAll(target, 0o755))
	expect.NoError(t, os.WriteFile(source+"/f", []byte("x"), 0o600))
	t.Cleanup(func() {
		points, _ := m.MountPoints(root)
		for _, p := range points {
			expect.NoError(t, m.Unmount(p))
		}
	})
	if err := m.Bind(source, target, true); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target+"/g", nil, 0o600); !errors.Is(err, syscall.EROFS) {
		t.Errorf("a read-only bind takes writes: %v", err)
	}
	if err := os.WriteFile(source+"/g", nil, 0o600); err != nil {
		t.Error(err)
	}
	over := filepath.Join(root, "a")
	if err := m.Tmpfs(over, 0, 0o755); err != nil {
		t.Fatal(err)
	}
	points, err := m.MountPoints(root)
	if err != nil || len(points) != 2 || points[0] != over || points[1] != target {
		t.Errorf("%v %v, want the latest first: %s, %s", points, err, over, target)
	}
	link := filepath.Join(t.TempDir(), "link")
	expect.NoError(t, os.Symlink(root, link))
	if points, err := m.MountPoints(link); err != nil || len(points) != 2 || points[0] != link+"/a" {
		t.Errorf("by a link: got %v %v, want no error and 2 of them and [0] %v", points, err, link+"/a")
	}
	if points, err := m.MountPoints(root + "/none"); err != nil || len(points) != 0 {
		t.Errorf("got %v, %v, want no error and no points", points, err)
	}
}

// The volume's content is the Pod's: no link it makes may lead the kubelet out.
func TestOpenBeneath(t *testing.T) {
	outside := t.TempDir()
	for name, m := range map[string]interface {
		OpenBeneath(root, sub string, mkdir os.FileMode) (int, error)
	}{"kernel": mount.Mounter{}, "plain": mount.DirMounter{}} {
		root := t.TempDir()
		expect.NoError(t, os.MkdirAll(root+"/dir/sub", 0o755))
		expect.NoError(t, os.WriteFile(root+"/file", []byte("x"), 0o600))
		expect.NoError(t, os.Symlink("dir", root+"/in"))
		expect.NoError(t, os.Symlink(outside, root+"/out"))
		expect.NoError(t, os.Symlink("../..", root+"/dir/up"))
		expect.NoError(t, os.Symlink("/proc/self/root/etc", root+"/magic"))
		expect.NoError(t, os.Symlink("loop", root+"/loop"))
		for _, tc := range []struct {
			sub string
			mk  os.FileMode
			is  string // what is opened, empty for an error
		}{
			{"dir/sub", 0, "dir/sub"}, {"file", 0, "file"}, {"in/sub", 0, "dir/sub"}, {".", 0, "."},
			{"none", 0, ""}, {"none/deep", 0o750, "none/deep"}, {"in/made", 0o750, "dir/made"},
			{"out", 0, ""}, {"out/x", 0o755, ""}, {"dir/up", 0, ""}, {"dir/up/x", 0o755, ""}, {"magic", 0, ""},
			{"magic/x", 0o755, ""},
			{"..", 0, ""}, {"../x", 0o755, ""}, {"/etc", 0, ""}, {"dir/../../x", 0o755, ""}, {"loop", 0, ""},
			{"file/x", 0o755, ""},
		} {
			fd, err := m.OpenBeneath(root, tc.sub, tc.mk)
			if tc.is == "" {
				if err == nil {
					t.Errorf("%s: %s is opened", name, tc.sub)
					expect.NoError(t, unix.Close(fd))
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %s: got error %v, want none", name, tc.sub, err)
				continue
			}
			var got, want unix.Stat_t
			expect.NoError(t, unix.Fstat(fd, &got))
			expect.NoError(t, unix.Stat(filepath.Join(root, tc.is), &want))
			if got.Ino != want.Ino || got.Dev != want.Dev {
				t.Errorf("%s: %s opens something else than %s", name, tc.sub, tc.is)
			}
			if tc.mk != 0 && os.FileMode(got.Mode).Perm() != tc.mk {
				t.Errorf("%s: %s made with mode %o, want %o", name, tc.sub, got.Mode&0o777, tc.mk)
			}
			expect.NoError(t, unix.Close(fd))
		}
		if e, _ := os.ReadDir(outside); len(e) != 0 {
			t.Errorf("%s: made outside: %v, want none", name, e)
		}
	}
}

func TestDescriptorsAreClosed(t *testing.T) {
	count := func() int { e, _ := os.ReadDir("/proc/self/fd"); return len(e) }
	root := t.TempDir()
	expect.NoError(t, os.Symlink("/", root+"/out"))
	before := count()
	for range 50 {
		if fd, err := (mount.Mounter{}).OpenBeneath(root, "a/b/c", 0o755); err == nil {
			expect.NoError(t, unix.Close(fd))
		}
		for _, out := range []string{"a/b/out/../../../out/x", "out/x"} {
			if _, err := (mount.Mounter{}).OpenBeneath(root, out, 0o755); err == nil {
				t.Fatalf("%s is opened", out)
			}
		}
	}
	if after := count(); after > before+2 {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// Whether tmpfs stays out of swap is found out by a mount that leaves nothing.
func TestTmpfsOutOfSwap(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	if _, err := mount.KeepsTmpfsFromSwap(dir); err != nil {
		t.Errorf("got %v, want an answer", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want nothing left", left, err)
	}
}
