package kernel

import (
	"context"
	"sync"

	"sigs.k8s.io/knftables"

	"github.com/gantry-project/gantry/internal/proxy/kernel/wire"
)

// ears is what was heard of others' changes of the table.
type ears struct {
	mu       sync.Mutex
	heard    []wire.Heard
	own      []span          // what the program nft did for us
	open     bool            // somebody listens
	ended    error           // why nobody does any more
	suspects map[string]bool // chains that others touched since the table was last put right; only List's and Touched's caller has to do with it
}

// mostOwn is how many of our own transactions are remembered.
const mostOwn = 64

// span is the generations after one and up to another.
type span struct{ after, to uint32 }

// Listen rings when somebody else changes the table, until ctx ends. It fails where the kernel does not let it hear; the periodic looks remain.
func (t *Table) Listen(ctx context.Context, ring func()) error {
	if t.wire == nil {
		return wire.ErrUnknown
	}
	t.ears.set(true) // before it begins, so that an end is not overruled
	err := t.wire.Listen(ctx, func(h wire.Heard) {
		t.ears.take(h)
		ring()
	})
	if err != nil {
		t.ears.set(false)
	}
	return err
}

// Hears tells whether the table is listened to; where that has ended, why.
func (t *Table) Hears() (bool, error) {
	t.ears.mu.Lock()
	defer t.ears.mu.Unlock()
	return t.ears.open, t.ears.ended
}

func (e *ears) set(open bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = open
}

func (e *ears) take(h wire.Heard) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, h)
	if h.Ended != nil {
		e.open, e.ended = false, h.Ended
	}
}

// Touched tells whether somebody else changed the table since it was asked last. What was touched is made anew by what List leaves out.
func (t *Table) Touched() bool {
	t.ears.mu.Lock()
	defer t.ears.mu.Unlock()
	touched := false
	for _, h := range t.ears.heard {
		if h.Generation != 0 && t.ears.mine(h.Generation) {
			continue
		}
		touched = true
		for _, c := range h.Chains {
			if t.ears.suspects == nil {
				t.ears.suspects = map[string]bool{}
			}
			t.ears.suspects[c] = true
		}
	}
	t.ears.heard = nil
	return touched
}

// Restored forgets who was touched: all is put right.
func (t *Table) Restored() { t.ears.suspects = nil }

func (e *ears) mine(generation uint32) bool {
	for _, s := range e.own {
		if generation-s.after-1 < s.to-s.after { // also where the numbers begin anew
			return true
		}
	}
	return false
}

// byProgram runs a transaction by nft, and remembers which generations it made, so that hearing of them is no alarm.
func (t *Table) byProgram(ctx context.Context, tx *knftables.Transaction) error {
	t.ways.Program++
	if open, _ := t.Hears(); !open {
		return t.nft.Run(ctx, tx)
	}
	before, errBefore := t.wire.Generation()
	err := t.nft.Run(ctx, tx)
	after, errAfter := t.wire.Generation()
	if errBefore == nil && errAfter == nil {
		t.ears.mu.Lock()
		t.ears.own = append(t.ears.own, span{before, after})
		t.ears.own = t.ears.own[max(0, len(t.ears.own)-mostOwn):] // what is older was heard of long ago
		t.ears.mu.Unlock()
	}
	return err
}
