package containerd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/plugins/snapshots/overlay/overlayutils"
	"golang.org/x/sys/unix"
)

// PreflightError is a missing prerequisite of the machine or installation; Fix is the remedy.
type PreflightError struct {
	What string
	Fix  string
	Err  error
}

func (m *PreflightError) Error() string {
	if m.Err != nil {
		return fmt.Sprintf("%s: %v; %s", m.What, m.Err, m.Fix)
	}
	return m.What + "; " + m.Fix
}

func (m *PreflightError) Unwrap() error { return m.Err }

// maxSocketPath is the kernel's limit on sun_path without the final zero byte; shims add "/s/<64
// hex digits>".
const maxSocketPath = 107

// preflight checks prerequisites whose lack would cause less clear errors later.
func (c Config) preflight() (host, error) {
	checks := []func() error{
		checkPrivileges,
		func() error { return checkProgram(c.BinDir, "runc") },
		func() error { return checkProgram(c.BinDir, "containerd-shim-runc-v2") },
		func() error { return checkProgram(c.BinDir, "pause") },
		func() error { return checkSocketPath(c.StateDir) },
		checkSeccomp,
		checkCgroups,
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return host{}, err
		}
	}
	snapshotter, err := c.chooseSnapshotter()
	return host{mayLowerOOMScore: hasCapability(unix.CAP_SYS_RESOURCE), snapshotter: snapshotter}, err
}

func checkPrivileges() error {
	if os.Geteuid() == 0 && hasCapability(unix.CAP_SYS_ADMIN) {
		return nil
	}
	return &PreflightError{What: "running containers needs root with CAP_SYS_ADMIN",
		Fix: "run gantry with sudo, or point --container-runtime-endpoint at a runtime that runs already"}
}

func hasCapability(capability uint) bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&hdr, &data[0]) != nil {
		return false
	}
	return data[capability/32].Effective&(1<<(capability%32)) != 0
}

func checkProgram(dir, name string) error {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &PreflightError{What: fmt.Sprintf("%s is not in %s", name, dir),
			Fix: "put the files of the release side by side, or build them with `make build`"}
	case err != nil:
		return &PreflightError{What: path, Fix: "make it readable", Err: err}
	case info.Mode()&0o111 == 0:
		return &PreflightError{What: path + " is not executable", Fix: "chmod +x " + path}
	}
	return nil
}

func checkSocketPath(stateDir string) error {
	longest := filepath.Join(stateDir, "s", strings.Repeat("0", 64))
	if len(longest) <= maxSocketPath {
		return nil
	}
	return &PreflightError{What: fmt.Sprintf("the state directory %s is %d bytes too long for unix sockets", stateDir,
		len(longest)-maxSocketPath), Fix: "choose a shorter one"}
}

func checkSeccomp() error {
	if _, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0); errors.Is(err, unix.EINVAL) {
		return &PreflightError{What: "this kernel has no seccomp, which Pods use by default",
			Fix: "use a kernel built with CONFIG_SECCOMP_FILTER"}
	}
	return nil
}

func checkCgroups() error {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return nil
	}
	for _, controller := range []string{"cpu", "memory", "pids", "devices"} {
		if _, err := os.Stat("/sys/fs/cgroup/" + controller); err != nil {
			return &PreflightError{What: "no cgroup file system with the " + controller +
				" controller at /sys/fs/cgroup", Fix: "mount -t cgroup2 none /sys/fs/cgroup"}
		}
	}
	return nil
}

// chooseSnapshotter returns overlayfs if it works (6 ms per container), otherwise native, which
// copies (70 ms).
func (c Config) chooseSnapshotter() (string, error) {
	switch c.Snapshotter {
	case "overlayfs", "native":
		return c.Snapshotter, nil
	case "":
	default:
		return "", fmt.Errorf("snapshotter %q: must be overlayfs or native", c.Snapshotter)
	}
	if err := os.MkdirAll(c.root(), 0o711); err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	if overlayutils.Supported(c.root()) != nil {
		return "native", nil
	}
	return "overlayfs", nil
}
