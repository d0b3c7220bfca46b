package mailbox_test

import (
	"sync"
	"testing"

	"github.com/gantry-project/gantry/internal/kubelet/podworker/mailbox"
)

// Many updates are one wake-up, none is lost, and reasons gather until the owner takes them.
// However many updates come while nobody looks, one look follows, with all of them merged.
//
// row: PWK-03
func TestUpdatesMergeAndWakeOnce(t *testing.T) {
	m := mailbox.New(0, func(old, newer int) int { return old + newer })
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() { m.Update(1, 1) })
	}
	all.Wait()
	m.Wake(4)
	if got := *m.Value(); got != 100 {
		t.Errorf("got %d, want the sum of 100 updates", got)
	}
	if got := len(m.Wakeups()); got != 1 {
		t.Errorf("got %d wake-ups, want 1", got)
	}
	<-m.Wakeups()
	if got := m.TakeReasons(); got != 1|4 {
		t.Errorf("got reasons %b, want %b", got, 1|4)
	}
	if got := m.TakeReasons(); got != 0 {
		t.Errorf("got reasons %b the second time, want none", got)
	}
}
