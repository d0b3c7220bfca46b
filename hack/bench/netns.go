package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/gantry-project/gantry/test/netns"
)

// namespaces makes network namespaces and takes them away.
type namespaces struct {
	dir string
	all []ns.NetNS
}

func newNamespaces() (*namespaces, error) {
	dir, err := os.MkdirTemp("", "gantry-bench-net-")
	return &namespaces{dir: dir}, err
}

// add makes one, with its loopback up.
func (s *namespaces) add() (ns.NetNS, error) {
	n, err := netns.Add(filepath.Join(s.dir, fmt.Sprint(len(s.all))))
	if err != nil {
		return nil, err
	}
	s.all = append(s.all, n)
	_, err = netns.Run(n, "ip link set lo up")
	return n, err
}

func (s *namespaces) remove() {
	for i, n := range s.all {
		_ = netns.Remove(filepath.Join(s.dir, fmt.Sprint(i)), n) // the directory's removal says so
	}
	if err := os.RemoveAll(s.dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// ready asks a health server.
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
	_, err := netns.Run(n, script)
	return err
}
