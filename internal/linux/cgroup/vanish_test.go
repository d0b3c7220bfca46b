package cgroup

import (
	"errors"
	"io/fs"
	"testing"
)

// row: QOS-10
func TestAControllerThatVanishesIsPassedOnAgain(t *testing.T) {
	other := errors.New("read-only")
	for _, c := range []struct {
		fails int
		with  error
		calls int
		err   error
	}{
		{0, nil, 1, nil},
		{3, &fs.PathError{Op: "write", Path: "cgroup.subtree_control", Err: fs.ErrNotExist}, 4, nil},
		{100, fs.ErrNotExist, ensureAttempts, fs.ErrNotExist},
		{100, other, 1, other},
	} {
		calls := 0
		err := whileControllersVanish(func() error {
			if calls++; calls <= c.fails {
				return c.with
			}
			return nil
		})
		if calls != c.calls || !errors.Is(err, c.err) {
			t.Errorf("%d times %v: got error %v after %d calls, want %v after %d", c.fails, c.with, err, calls, c.err,
				c.calls)
		}
	}
}
