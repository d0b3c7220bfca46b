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

// Clean removes everything that an instance left behind: its containerd, containers with their
// cgroups, shims, mounts, network namespaces, images and state, and nothing of others. It tries
// every step and joins the errors. It may be repeated, and does nothing if there is nothing to do.
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
		_ = os.Remove(filepath.Dir(cfg.StateDir)) // fails if another instance has its state there
	}
	return err
}

// deleteContainers kills the instance's containers and removes their cgroups, from runc's records.
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

// killShims kills the shims that report to this instance's socket.
func (c Config) killShims() error {
	var errs []error
	for _, pid := range pids() {
		if !hasArgument(pid, "-address", c.socket()) {
			continue
		}
		p, err := openProcess(pid)
		if err != nil {
			continue // it is gone
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

// unmountAll detaches all mounts at or below the instance's directories, the latest first.
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

// realPath resolves symbolic links, as paths in mountinfo are resolved.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// unescape decodes the octal escapes of mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
