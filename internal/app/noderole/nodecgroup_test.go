package noderole

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/gantry-project/gantry/internal/linux/proc"
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
	if got := systemCgroups("unix://" + socket); got["kubelet"] != own || got["runtime"] != own {
		t.Errorf("got %v, want %q of kubelet and runtime", got, own)
	}
	if got := systemCgroups("unix://" + socket + ".none"); got["kubelet"] != own || len(got) != 1 {
		t.Errorf("got %v, want %q of the kubelet alone", got, own)
	}
}
