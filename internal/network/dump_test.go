package network

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestInterruptedListingIsAskedForAgain(t *testing.T) {
	asked := 0
	got, err := DumpWithRetry(func() ([]int, error) {
		if asked++; asked < 3 {
			return []int{1}, netlink.ErrDumpInterrupted
		}
		return []int{1, 2}, nil
	})
	if err != nil || len(got) != 2 || asked != 3 {
		t.Errorf("%v %v after %d, want no error, 2 of them, 3", got, err, asked)
	}
	broken := errors.New("broken")
	asked = 0
	if _, err := DumpWithRetry(func() ([]int, error) { asked++; return nil, broken }); !errors.Is(err, broken) ||
		asked != 1 {
		t.Errorf("another error: %v after %d", err, asked)
	}
	if _, err := DumpWithRetry(func() ([]int, error) { return nil, netlink.ErrDumpInterrupted }); err == nil {
		t.Error("a listing that never came whole passes for whole")
	}
}
