// Package mailbox passes messages to a goroutine that owns a state; who sends does not wait for it.
//
// A Mailbox holds one value, the newest, into which updates are merged as they come, and the
// reasons to look again that have gathered since the owner looked last: many updates, one look.
//
// In: updates and reasons, from any goroutine. Out: the value and the reasons, to the one owner.
package mailbox

import "sync/atomic"

// Mailbox is one owner's mailbox. Make one with New.
type Mailbox[T any] struct {
	merge   func(old, newer T) T
	value   atomic.Pointer[T]
	reasons atomic.Int32
	wakeup  chan struct{} // capacity one
}

// New returns a mailbox that holds value. merge says what becomes of it with an update; it must be
// pure, as it may be called more than once for one update.
func New[T any](value T, merge func(old, newer T) T) *Mailbox[T] {
	m := &Mailbox[T]{merge: merge, wakeup: make(chan struct{}, 1)}
	m.value.Store(&value)
	return m
}

// Update merges an update into the value, and wakes the owner for the reason, a bit.
func (m *Mailbox[T]) Update(newer T, reason int32) {
	for old := m.value.Load(); ; old = m.value.Load() {
		merged := m.merge(*old, newer)
		if m.value.CompareAndSwap(old, &merged) {
			break
		}
	}
	m.Wake(reason)
}

// Wake wakes the owner for the reason, a bit. It never waits.
func (m *Mailbox[T]) Wake(reason int32) {
	m.reasons.Or(reason)
	select {
	case m.wakeup <- struct{}{}:
	default:
	}
}

// Value is the newest value. It must not be changed.
func (m *Mailbox[T]) Value() *T { return m.value.Load() }

// Wakeups delivers once after each Wake that came since the last delivery. Only the owner receives.
func (m *Mailbox[T]) Wakeups() <-chan struct{} { return m.wakeup }

// TakeReasons returns the reasons that have gathered since it was called last.
func (m *Mailbox[T]) TakeReasons() int32 { return m.reasons.Swap(0) }
