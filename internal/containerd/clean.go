package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/instance"
)

// Clean removes what an instance left behind, and nothing of anybody else: its containerd, its
// containers with their cgroups, its shims, mounts, network namespaces, images and state. It may be
// called again after a failure and when there is nothing to do. Every step is tried; what failed is
// joined.
func Clean(ctx context.Context, cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	var errs []error
	if proc := cfg.running(); proc != nil {
		errs = append(errs, proc.terminate(ctx, stopGrace))
		proc.release()
	}
	errs = append(errs, cfg.deleteContainers(ctx), cfg.killShims(), cfg.unmountAll())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean containerd's state (files are kept): %w", err)
	}
	err = errors.Join(os.RemoveAll(cfg.StateDir), os.RemoveAll(cfg.root()))
	if cfg.StateDir == instance.StateDir(cfg.DataDir) {
		_ = os.Remove(filepath.Dir(cfg.StateDir)) // goes only when no other instance has its state there
	}
	return err
}

// deleteContainers kills what runs and removes its cgroups, by runc's own records.
func (c Config) deleteContainers(ctx context.Context) error {
	records, err := filepath.Glob(filepath.Join(c.runcDir(), "*", "*", "state.json"))
	if err != nil {
		return err
	}
	var errs []error
	for _, record := range records {
		dir := filepath.Dir(record)
		runc := exec.CommandContext(ctx, filepath.Join(c.BinDir, "runc"), "--root", filepath.Dir(dir), "delete",
			"--force", filepath.Base(dir))
		if out, err := runc.CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("delete container %s: %w: %s", filepath.Base(dir), err,
				strings.TrimSpace(string(out))))
		}
	}
	return errors.Join(errs...)
}

// killShims ends the shims that report to this instance's socket.
func (c Config) killShims() error {
	var errs []error
	for _, pid := range pids() {
		if !hasArgument(pid, "-address", c.socket()) {
			continue
		}
		p, err := openProcess(pid)
		if err != nil {
			continue // gone meanwhile
		}
		if err := p.signal(unix.SIGKILL); err != nil {
			errs = append(errs, fmt.Errorf("kill shim %d: %w", pid, err))
		} else {
			select {
			case <-p.exited:
			case <-time.After(5 * time.Second):
				errs = append(errs, fmt.Errorf("shim %d does not end after SIGKILL", pid))
			}
		}
		p.release()
	}
	return errors.Join(errs...)
}

// unmountAll detaches every mount at or below the instance's own directories, last mounted first.
func (c Config) unmountAll() error {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("list mounts: %w", err)
	}
	var overrides []string
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		at := unescape.Replace(fields[4])
		for _, dir := range []string{realPath(c.StateDir), realPath(c.root())} {
			if strings.HasPrefix(at, dir+"/") {
				overrides = append(overrides, at)
			}
		}
	}
	var errs []error
	for i := len(overrides) - 1; i >= 0; i-- {
		if err := unix.Unmount(overrides[i], unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err,
			unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", overrides[i], err))
		}
	}
	return errors.Join(errs...)
}

// realPath resolves links, as the kernel's list of mounts does.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// unescape undoes the kernel's octal escapes in mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
