// Package netns makes network namespaces for tests and benches: the machines, routers and Pods of a
// network that is not the host's. It needs root.
package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"
)

// New makes a network namespace that is removed when t ends. Its loopback is down.
func New(t testing.TB) ns.NetNS {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ns")
	n, err := Add(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// what a test has unmounted itself is no mount any more
		if err := Remove(file, n); err != nil && !errors.Is(err, unix.EINVAL) {
			t.Errorf("remove a network namespace: got error %v, want none", err)
		}
	})
	return n
}

// Add makes a network namespace and binds it to a new file.
func Add(file string) (ns.NetNS, error) {
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return nil, err
	}
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its namespace
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), file, "", unix.MS_BIND, "")
		}
		failed <- err
	}()
	if err := <-failed; err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	return ns.GetNS(file)
}

// Remove closes n and unbinds it from its file, which stays.
func Remove(file string, n ns.NetNS) error {
	return errors.Join(n.Close(), unix.Unmount(file, unix.MNT_DETACH))
}

// Run runs a shell script inside n and returns what it printed. It may be called by any goroutine.
func Run(n ns.NetNS, script string) (string, error) {
	var out []byte
	err := n.Do(func(ns.NetNS) (err error) {
		out, err = exec.Command("sh", "-euc", script).CombinedOutput()
		return err
	})
	if err != nil {
		return string(out), fmt.Errorf("%s: %w\n%s", script, err, out)
	}
	return string(out), nil
}

// MustRun is Run for the test's own goroutine: a script that fails ends the test.
func MustRun(t testing.TB, n ns.NetNS, script string) string {
	t.Helper()
	out, err := Run(n, script)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
