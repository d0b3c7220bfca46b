package cgroup_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/linux/cgroup"
)

// openTree opens a tree of this machine in which the test may make cgroups.
func openTree(t *testing.T) *cgroup.Tree {
	t.Helper()
	root := "/gantry-notify-test"
	tree, err := cgroup.Open(cgroup.Options{Root: root})
	if err != nil || os.Geteuid() != 0 {
		t.Skipf("needs root and cgroups: %v", err)
	}
	if err := tree.Ensure(root, cgroup.Values{}); err != nil {
		t.Skipf("cannot make cgroups here: %v", err)
	}
	t.Cleanup(func() {
		if err := tree.Remove(root); err != nil {
			t.Errorf("remove %s: %v, want no error", root, err)
		}
	})
	return tree
}

// TestNotifyUsage charges memory to a cgroup: a file in the page cache of a tmpfs, written by a
// process that lives in it.
func TestNotifyUsage(t *testing.T) {
	tree := openTree(t)
	const at = "/gantry-notify-test/a"
	if err := tree.Ensure(at, cgroup.Values{}); err != nil {
		t.Fatal(err)
	}
	n, err := tree.NotifyUsage(at, 32<<20)
	if tree.Version() == 2 {
		if !errors.Is(err, cgroup.ErrNoUsageNotice) {
			t.Fatalf("got %v, want ErrNoUsageNotice", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 1)
	go func() { told <- n.Wait() }()
	fill(t, filepath.Join(cgroup.Mount, "memory", at), 64<<20)
	select {
	case err := <-told:
		if err != nil {
			t.Fatalf("got %v, want a notice", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the kernel told of nothing within a minute")
	}
	use, err := tree.MemoryUse(at)
	if err != nil || use.WorkingSet < 32<<20 || use.Bytes < use.WorkingSet || use.Limit != 0 {
		t.Errorf("got %+v (%v), want a working set of 64Mi or so, no more than all, and no limit", use, err)
	}
	go func() { told <- n.Wait() }()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-told:
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("after Close: got %v, want os.ErrClosed", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Wait does not end with Close")
	}
}

// fill has a child, which dies with the test, hold bytes of memory in a cgroup of version 1.
func fill(t *testing.T, dir string, bytes int) {
	t.Helper()
	child := holdMemory(t, bytes)
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(child.pid), 0); err != nil {
		t.Fatal(err)
	}
	child.begin()
}

// Tasks that wait are told of, each time anew. They wait for cores here, which a test can have them
// do without harm.
func TestEachPressureIsReported(t *testing.T) {
	n, err := cgroup.NotifyPressure("/proc/pressure/cpu", 100*time.Millisecond, 2*time.Second)
	if err != nil {
		t.Skipf("this kernel does not count: %v", err)
	}
	stop := make(chan struct{})
	for range 4 * runtime.NumCPU() {
		child := exec.Command("sh", "-c", "while :; do :; done")
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = child.Process.Kill()
			_ = child.Wait()
		})
	}
	told := make(chan error)
	go func() {
		for {
			select {
			case told <- n.Wait():
			case <-stop:
				return
			}
		}
	}()
	for i := range 3 {
		select {
		case err := <-told:
			if err != nil {
				t.Fatalf("notice %d: got error %v, want none", i+1, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("got %d notices, want 3: the kernel told of nothing for a minute", i)
		}
	}
	close(stop)
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

func TestNotifyPressure(t *testing.T) {
	const file = "/proc/pressure/memory"
	n, err := cgroup.NotifyPressure(file, 500*time.Millisecond, 2*time.Second)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, os.ErrPermission) {
		t.Skipf("this kernel does not count: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 1)
	go func() { told <- n.Wait() }()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-told; !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: got %v, want os.ErrClosed", err)
	}
	if _, err := cgroup.NotifyPressure(filepath.Join(t.TempDir(), "none"), 1, 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a kernel without pressure: got %v, want that the file does not exist", err)
	}
}
