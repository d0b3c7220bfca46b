package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// RequireRoot refuses to go on without the privileges that running containers needs.
func RequireRoot(what string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	return WithFix(fmt.Errorf("%s needs root: it makes cgroups, mounts and network interfaces", what),
		"run it with sudo, or run `gantry server` alone, which needs no privileges")
}

// RequireKernel checks the features that containers need below root, "/" but in tests, and names
// the first one that is missing.
func RequireKernel(root string) error {
	filesystems, err := os.ReadFile(filepath.Join(root, "proc/filesystems"))
	if err != nil {
		return WithFix(fmt.Errorf("cannot read /proc/filesystems: %w", err), "mount proc on /proc")
	}
	if !strings.Contains(string(filesystems), "overlay") {
		return WithFix(errors.New("this kernel has no overlayfs"), "load the module: modprobe overlay")
	}
	if _, err := os.Stat(filepath.Join(root, "proc/self/ns/net")); err != nil {
		return WithFix(errors.New("this kernel has no network namespaces"), "use a kernel built with CONFIG_NET_NS")
	}
	if _, err := os.Stat(filepath.Join(root, "sys/fs/cgroup")); err != nil {
		return WithFix(errors.New("no cgroup file system is mounted at /sys/fs/cgroup"),
			"mount -t cgroup2 none /sys/fs/cgroup")
	}
	return nil
}

// RequirePort checks that nobody listens there yet; what names the flag that moves it.
func RequirePort(host string, port int, flag string) error {
	l, err := net.Listen("tcp", net.JoinHostPort(host, fmt.Sprint(port)))
	if err == nil {
		return l.Close()
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return WithFix(fmt.Errorf("port %d on %s is taken", port, host),
			"stop the program that listens there (ss -ltnp 'sport = :%d' names it), or choose another port with %s",
			port, flag)
	}
	return WithFix(fmt.Errorf("cannot listen on %s port %d: %w", host, port, err),
		"choose another address or port with %s", flag)
}
