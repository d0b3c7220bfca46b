package nftables

import (
	"errors"
	"testing"

	"github.com/gantry-project/gantry/internal/proxy/nftables/nfnetlink"
)

// A table that is no longer listened to says so, and counts as modified.
func TestTableReportsWhetherItListens(t *testing.T) {
	k := &Table{}
	if open, err := k.Listening(); open || err != nil {
		t.Errorf("before: %v, %v", open, err)
	}
	k.listener.setListening(true)
	k.listener.record(nfnetlink.Notification{Chains: []string{"c"}})
	if open, err := k.Listening(); !open || err != nil || !k.ModifiedByOthers() || k.ModifiedByOthers() {
		t.Errorf("while it listens: %v, %v", open, err)
	}
	why := errors.New("the socket is gone")
	k.listener.record(nfnetlink.Notification{Overrun: true, Err: why})
	if open, err := k.Listening(); open || !errors.Is(err, why) || !k.ModifiedByOthers() {
		t.Errorf("after the end: %v, %v", open, err)
	}
}
