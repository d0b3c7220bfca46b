package store

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// InUse says that another process holds the directory.
type InUse struct{ Dir string }

func (e *InUse) Error() string {
	return fmt.Sprintf("data directory %s is in use by another process: stop it, or choose another data directory", e.Dir)
}

// Damaged says that the embedded etcd cannot read what lies in its directory.
type Damaged struct {
	Dir string
	Err error
}

func (e *Damaged) Error() string {
	return fmt.Sprintf("the store in %s is damaged (%v): restore it from a snapshot, or move the directory away to start empty", e.Dir, e.Err)
}

// Unwrap returns what etcd said.
func (e *Damaged) Unwrap() error { return e.Err }

// Unreachable says that no external etcd server answered.
type Unreachable struct {
	Servers []string
	Err     error
}

func (e *Unreachable) Error() string {
	return fmt.Sprintf("etcd at %s does not answer (%v): check the addresses and certificates of the etcd servers", strings.Join(e.Servers, ", "), e.Err)
}

// Unwrap returns what the client said.
func (e *Unreachable) Unwrap() error { return e.Err }

// lock takes a lock file that the kernel releases when the process ends, however it ends.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("store: cannot open %s: %w: choose a data directory this user may write", path, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &InUse{Dir: strings.TrimSuffix(path, "/lock")}
		}
		return nil, fmt.Errorf("store: cannot lock %s: %w: choose a data directory on a local file system", path, err)
	}
	return func() { _ = f.Close() }, nil
}
