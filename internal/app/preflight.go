package app

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// requireRoot refuses to go on without the privileges that running containers needs.
func requireRoot(what string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	return withFix(fmt.Errorf("%s needs root: it makes cgroups, mounts and network interfaces", what),
		"run it with sudo, or run `gantry server` alone, which needs no privileges")
}

// requireKernel checks the features that containers need below root, "/" but in tests, and names
// the first one that is missing.
func requireKernel(root string) error {
	filesystems, err := os.ReadFile(filepath.Join(root, "proc/filesystems"))
	if err != nil {
		return withFix(fmt.Errorf("cannot read /proc/filesystems: %w", err), "mount proc on /proc")
	}
	if !strings.Contains(string(filesystems), "overlay") {
		return withFix(errors.New("this kernel has no overlayfs"), "load the module: modprobe overlay")
	}
	if _, err := os.Stat(filepath.Join(root, "proc/self/ns/net")); err != nil {
		return withFix(errors.New("this kernel has no network namespaces"), "use a kernel built with CONFIG_NET_NS")
	}
	if _, err := os.Stat(filepath.Join(root, "sys/fs/cgroup")); err != nil {
		return withFix(errors.New("no cgroup file system is mounted at /sys/fs/cgroup"),
			"mount -t cgroup2 none /sys/fs/cgroup")
	}
	return nil
}

// requirePort checks that nobody listens there yet; what names the flag that moves it.
func requirePort(host string, port int, flag string) error {
	l, err := net.Listen("tcp", net.JoinHostPort(host, fmt.Sprint(port)))
	if err == nil {
		return l.Close()
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return withFix(fmt.Errorf("port %d on %s is taken", port, host),
			"stop the program that listens there (ss -ltnp 'sport = :%d' names it), or choose another port with %s",
			port, flag)
	}
	return withFix(fmt.Errorf("cannot listen on %s port %d: %w", host, port, err),
		"choose another address or port with %s", flag)
}

// dirLock keeps a second instance off a data directory.
type dirLock struct{ file *os.File }

// lockDataDir creates the directory (0700) and locks it until the process ends.
func lockDataDir(dir string) (*dirLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, withFix(fmt.Errorf("data directory %s: %w", dir, err),
			"choose a writable directory with --data-dir")
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, withFix(fmt.Errorf("data directory %s: %w", dir, err),
			"choose a writable directory with --data-dir")
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(f.Name())
		_ = f.Close()
		return nil, withFix(fmt.Errorf("data directory %s is in use by process %s", dir,
			strings.TrimSpace(string(holder))),
			"stop that instance, or give this one its own directory with --data-dir and its own --secure-port, "+
				"--kubelet-port, --bridge and --pod-cidr")
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s: %w", dir, err), f.Close())
	}
	return &dirLock{f}, nil
}

func (l *dirLock) release() { _ = l.file.Close() }
