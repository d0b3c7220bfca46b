package nftables

import (
	"context"
	"sync"

	"sigs.k8s.io/knftables"

	"github.com/gantry-project/gantry/internal/proxy/nftables/nfnetlink"
)

// changeListener collects notifications of changes that other programs make to the table. Its mutex
// guards all fields but modified.
type changeListener struct {
	mu             sync.Mutex
	notifications  []nfnetlink.Notification
	ownGenerations []generationRange // generations made by our own runs of nft
	listening      bool              // a netlink listener is running
	ended          error             // why the listener stopped
	// Chains that others changed since the table was last repaired. Only the goroutine that calls
	// List and ModifiedByOthers uses it.
	modified map[string]bool
}

// maxOwnGenerations is how many of our own transactions are remembered, to ignore their
// notifications.
const maxOwnGenerations = 64

// generationRange is the generations in (after, to].
type generationRange struct{ after, to uint32 }

// Listen calls changed, from another goroutine, whenever somebody changes the table, until ctx
// ends. It returns an error if the kernel does not allow listening; the caller then has to poll
// with Intact.
func (t *Table) Listen(ctx context.Context, changed func()) error {
	if t.netlinkTable == nil {
		return nfnetlink.ErrUnknown
	}
	t.listener.setListening(true) // before the listener starts: it may report its end at once
	err := t.netlinkTable.Listen(ctx, func(h nfnetlink.Notification) {
		t.listener.record(h)
		changed()
	})
	if err != nil {
		t.listener.setListening(false)
	}
	return err
}

// Listening reports whether the listener runs and, if it stopped, why.
func (t *Table) Listening() (bool, error) {
	t.listener.mu.Lock()
	defer t.listener.mu.Unlock()
	return t.listener.listening, t.listener.ended
}

func (e *changeListener) setListening(open bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listening = open
}

func (e *changeListener) record(h nfnetlink.Notification) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.notifications = append(e.notifications, h)
	if h.Err != nil {
		e.listening, e.ended = false, h.Err
	}
}

// ModifiedByOthers reports whether another program changed the table since the last call. Later
// calls of List leave out the changed chains, so that they are made anew.
func (t *Table) ModifiedByOthers() bool {
	t.listener.mu.Lock()
	defer t.listener.mu.Unlock()
	touched := false
	for _, h := range t.listener.notifications {
		if h.Generation != 0 && t.listener.isOwnGeneration(h.Generation) {
			continue
		}
		touched = true
		for _, c := range h.Chains {
			if t.listener.modified == nil {
				t.listener.modified = map[string]bool{}
			}
			t.listener.modified[c] = true
		}
	}
	t.listener.notifications = nil
	return touched
}

// ClearModified forgets the chains that others changed. The caller calls it when the table has been
// repaired.
func (t *Table) ClearModified() { t.listener.modified = nil }

func (e *changeListener) isOwnGeneration(generation uint32) bool {
	for _, s := range e.ownGenerations {
		if generation-s.after-1 < s.to-s.after { // unsigned arithmetic: also right when generation numbers wrap around
			return true
		}
	}
	return false
}

// runNft runs a transaction by the program nft and records the generations it made, so that their
// notifications are not taken for another program's changes.
func (t *Table) runNft(ctx context.Context, tx *knftables.Transaction) error {
	t.counts.Nft++
	if open, _ := t.Listening(); !open {
		return t.nft.Run(ctx, tx)
	}
	before, errBefore := t.netlinkTable.Generation()
	err := t.nft.Run(ctx, tx)
	after, errAfter := t.netlinkTable.Generation()
	if errBefore == nil && errAfter == nil {
		t.listener.mu.Lock()
		t.listener.ownGenerations = append(t.listener.ownGenerations, generationRange{before, after})
		// Notifications of older generations have arrived long ago.
		t.listener.ownGenerations = t.listener.ownGenerations[max(0, len(t.listener.ownGenerations)-maxOwnGenerations):]
		t.listener.mu.Unlock()
	}
	return err
}
