package options

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gantry-project/gantry/internal/cli"
)

// Lock keeps a second instance off a data directory.
type Lock struct{ file *os.File }

// LockDataDir creates the directory (0700) and locks it until the process ends.
func LockDataDir(dir string) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, cli.WithFix(fmt.Errorf("data directory %s: %w", dir, err),
			"choose a writable directory with --data-dir")
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, cli.WithFix(fmt.Errorf("data directory %s: %w", dir, err),
			"choose a writable directory with --data-dir")
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(f.Name())
		_ = f.Close()
		return nil, cli.WithFix(fmt.Errorf("data directory %s is in use by process %s", dir,
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
	return &Lock{f}, nil
}

func (l *Lock) Release() { _ = l.file.Close() }
