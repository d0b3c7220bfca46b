package noderole

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/gantry-project/gantry/internal/linux/proc"
	"github.com/gantry-project/gantry/test/expect"
)

// The runtime is found by the socket at which it listens; without one the kubelet is told of alone.
func TestCgroupsOfKubeletAndRuntime(t *testing.T) {
	own, err := proc.Cgroup("/", os.Getpid())
	if err != nil {
		t.Skipf("the cgroup of this process cannot be read: %v", err)
	}
	socket := filepath.Join(t.TempDir(), "cri.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if pid, err := peerOf(socket); pid != os.Getpid() || err != nil {
		t.Errorf("got process %d, %v, want this one, %d", pid, err, os.Getpid())
	}
	if got := findSystemCgroups("unix://" + socket); got["kubelet"] != own || got["runtime"] != own {
		t.Errorf("got %v, want %q of kubelet and runtime", got, own)
	}
	if got := findSystemCgroups("unix://" + socket + ".none"); got["kubelet"] != own || len(got) != 1 {
		t.Errorf("got %v, want %q of the kubelet alone", got, own)
	}
}

// What is measured does not wait for the runtime: cgroups are those that were found last, and none
// until then.
func TestSystemCgroupsAreFoundBeside(t *testing.T) {
	s := &systemCgroups{endpoint: "unix://" + filepath.Join(t.TempDir(), "none.sock")}
	if got := s.get(); len(got) > 0 {
		t.Errorf("before any was found: got %v, want none", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }()
	expect.Eventually(t, "they are found", func() bool { return s.get() != nil })
	cancel()
	if err := <-done; err != nil {
		t.Errorf("after its context ended: got %v, want no error", err)
	}
}
