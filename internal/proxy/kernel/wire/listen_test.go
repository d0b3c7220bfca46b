package wire

import (
	"errors"
	"testing"

	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"
)

// An overflow is told, and hearing goes on; another error is told as the end.
func TestAnEndOfListeningIsTold(t *testing.T) {
	errs := []error{unix.ENOBUFS, unix.EPERM}
	ears := nltest.Dial(func([]netlink.Message) ([]netlink.Message, error) {
		err := errs[0]
		errs = errs[1:]
		return nil, err
	})
	defer ears.Close()
	var told []Heard
	(&Table{name: "t"}).hear(t.Context(), ears, func(h Heard) { told = append(told, h) })
	if len(told) != 2 || !told[0].Lost || told[0].Ended != nil || !told[1].Lost || !errors.Is(told[1].Ended, unix.EPERM) {
		t.Errorf("told %+v", told)
	}
}
