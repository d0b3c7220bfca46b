package noderole

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/gantry-project/gantry/internal/linux/proc"
)

// systemCgroupsPeriod is how often the runtime's cgroup is found anew, as it may have started
// again; upstream's.
const systemCgroupsPeriod = 5 * time.Minute

// systemCgroups knows the cgroups of this kubelet and of the runtime behind a CRI endpoint. They
// are found beside what measures them: a runtime that does not answer holds up no measuring.
type systemCgroups struct {
	endpoint string
	found    atomic.Pointer[map[string]string]
}

// run finds them until ctx ends.
func (s *systemCgroups) run(ctx context.Context) error {
	tick := time.NewTicker(systemCgroupsPeriod)
	defer tick.Stop()
	for {
		found := findSystemCgroups(s.endpoint)
		s.found.Store(&found)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// get returns those that were found last, not to be changed; none until run has found some.
func (s *systemCgroups) get() map[string]string {
	if found := s.found.Load(); found != nil {
		return *found
	}
	return nil
}

// findSystemCgroups returns them by the names that the summary has for them. One that cannot be
// found is left out.
func findSystemCgroups(endpoint string) map[string]string {
	out := map[string]string{}
	if at, err := proc.Cgroup("/", os.Getpid()); err == nil {
		out[statsapi.SystemContainerKubelet] = at
	}
	if pid, err := peerOf(strings.TrimPrefix(endpoint, "unix://")); err == nil {
		if at, err := proc.Cgroup("/", pid); err == nil {
			out[statsapi.SystemContainerRuntime] = at
		}
	}
	return out
}

// peerOf is the process that listens at a socket.
func peerOf(socket string) (pid int, err error) {
	c, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }() // nothing was written
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("%s: a connection of type %T", socket, c)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if failed != nil {
		return 0, fmt.Errorf("who listens at %s: %w", socket, failed)
	}
	return int(peer.Pid), nil
}
