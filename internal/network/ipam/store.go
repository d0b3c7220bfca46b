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

// Store keeps a Allocations in a directory.
type Store struct{ Dir string }

// View returns the book as it is now.
func (s Store) View() (Allocations, error) {
	boot, err := bootID()
	if err != nil {
		return Allocations{}, err
	}
	return s.read(boot)
}

// Update lets f edit the book, alone among all processes, and keeps the result unless f fails. The
// file is replaced whole, so a process killed at any instant leaves the old book or the new one. It
// is not synced to disk: a machine that goes down takes the leases with it.
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
		return empty, nil // cut off by the crash that ended the last boot
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
