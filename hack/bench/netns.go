package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"
)

// namespaces creates network namespaces and removes them.
type namespaces struct {
	dir string
	all []ns.NetNS
}

func newNamespaces() (*namespaces, error) {
	dir, err := os.MkdirTemp("", "gantry-bench-net-")
	return &namespaces{dir: dir}, err
}

// add creates one, with its loopback up.
func (s *namespaces) add() (ns.NetNS, error) {
	file := filepath.Join(s.dir, fmt.Sprint(len(s.all)))
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
	n, err := ns.GetNS(file)
	if err != nil {
		return nil, err
	}
	s.all = append(s.all, n)
	return n, sh(n, "ip link set lo up")
}

func (s *namespaces) remove() {
	for i, n := range s.all {
		at := filepath.Join(s.dir, fmt.Sprint(i))
		_ = errors.Join(n.Close(), unix.Unmount(at, unix.MNT_DETACH)) // removing the directory reports it
	}
	if err := os.RemoveAll(s.dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// ready checks a health server.
func ready(url string) error {
	r, err := http.Get(url)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, r.Status)
	}
	return nil
}

// sh runs a script inside a namespace.
func sh(n ns.NetNS, script string) error {
	return n.Do(func(ns.NetNS) error {
		if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", script, err, out)
		}
		return nil
	})
}
