package ipam

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Store keeps Allocations in leases.json in a directory. Any number of processes may use it.
type Store struct{ Dir string }

// View returns the current allocations, without locking.
func (s Store) View() (Allocations, error) {
	boot, err := bootID()
	if err != nil {
		return Allocations{}, err
	}
	return s.read(boot)
}

// Update calls f with the allocations under an exclusive lock among all processes, and stores the
// result unless f returns an error. The file is replaced atomically, so a killed process leaves the
// old or the new content. It is not synced to disk: leases do not outlive the machine's boot.
func (s Store) Update(f func(*Allocations) error) error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fmt.Errorf("address book: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(s.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("address book: %w", err)
	}
	defer lock.Close()
	if err := flock(lock); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	boot, err := bootID()
	if err != nil {
		return err
	}
	allocations, err := s.read(boot)
	if err != nil {
		return err
	}
	if err := f(&allocations); err != nil {
		return err
	}
	raw, err := json.Marshal(allocations)
	if err != nil {
		return fmt.Errorf("address book: %w", err)
	}
	if err := os.WriteFile(s.file()+".new", raw, 0o600); err != nil {
		return fmt.Errorf("address book: %w", err)
	}
	if err := os.Rename(s.file()+".new", s.file()); err != nil {
		return fmt.Errorf("address book: %w", err)
	}
	return nil
}

func (s Store) file() string { return filepath.Join(s.Dir, "leases.json") }

func (s Store) read(boot string) (Allocations, error) {
	empty := Allocations{Boot: boot}
	raw, err := os.ReadFile(s.file())
	if errors.Is(err, os.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return Allocations{}, fmt.Errorf("address book: %w", err)
	}
	var b Allocations
	if err := json.Unmarshal(raw, &b); err != nil {
		if strings.Contains(string(raw), boot) {
			return Allocations{}, fmt.Errorf("address book %s is damaged: %w; stop the Pods and remove it", s.file(),
				err)
		}
		return empty, nil // truncated by the crash that ended the last boot
	}
	if b.Boot != boot {
		return empty, nil
	}
	return b, nil
}

func flock(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func bootID() (string, error) {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("the kernel's boot id: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}
