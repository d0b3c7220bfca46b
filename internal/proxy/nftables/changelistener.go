package nftables

import (
	"context"
	"sync"

	"sigs.k8s.io/knftables"

	"github.com/gantry-project/gantry/internal/proxy/nftables/nfnetlink"
)

// changeListener is what was heard of others' changes of the table.
type changeListener struct {
	mu             sync.Mutex
	notifications  []nfnetlink.Notification
	ownGenerations []generationRange // what the program nft did for us
	listening      bool              // somebody listens
	ended          error             // why nobody does any more
	// chains that others touched since the table was last put right; only List's and Touched's
	// caller has to do with it
	modified map[string]bool
}

// maxOwnGenerations is how many of our own transactions are remembered.
const maxOwnGenerations = 64

// generationRange is the generations after one and up to another.
type generationRange struct{ after, to uint32 }

// Listen rings when somebody else changes the table, until ctx ends. It fails where the kernel does
// not let it hear; the periodic looks remain.
func (t *Table) Listen(ctx context.Context, ring func()) error {
	if t.netlinkTable == nil {
		return nfnetlink.ErrUnknown
	}
	t.listener.setListening(true) // before it begins, so that an end is not overruled
	err := t.netlinkTable.Listen(ctx, func(h nfnetlink.Notification) {
		t.listener.record(h)
		ring()
	})
	if err != nil {
		t.listener.setListening(false)
	}
	return err
}

// Listening tells whether the table is listened to; where that has ended, why.
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

// ModifiedByOthers tells whether somebody else changed the table since it was asked last. What was
// touched is made anew by what List leaves out.
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

// ClearModified forgets who was touched: all is put right.
func (t *Table) ClearModified() { t.listener.modified = nil }

func (e *changeListener) isOwnGeneration(generation uint32) bool {
	for _, s := range e.ownGenerations {
		if generation-s.after-1 < s.to-s.after { // also where the numbers begin anew
			return true
		}
	}
	return false
}

// runNft runs a transaction by nft, and remembers which generations it made, so that hearing of
// them is no alarm.
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
		// what is older was heard of long ago
		t.listener.ownGenerations = t.listener.ownGenerations[max(0, len(t.listener.ownGenerations)-maxOwnGenerations):]
		t.listener.mu.Unlock()
	}
	return err
}
