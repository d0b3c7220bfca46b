package noderole

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/gantry-project/gantry/internal/linux/proc"
)

// systemCgroups are the cgroups of this kubelet and of the runtime behind a CRI endpoint, by the
// names that the summary has for them. One that cannot be found is left out.
func systemCgroups(endpoint string) map[string]string {
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
