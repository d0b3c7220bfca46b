// Package volumestats asks for the sizes of directories and file systems, and waits for each only
// so long.
//
// A file server that is away keeps whoever asks for its size: a question that is not answered in
// time is given up by the caller, goes on by itself, and is not asked again before it has ended.
// In: functions that ask the kernel. Out: their answers, or an error naming path and since when.
package volumestats

import (
	"fmt"
	"sync"
	"time"
)

// Timeout is how long a caller waits.
const Timeout = 5 * time.Second

// Measurer asks one kind of question about paths. The zero value is not usable; make it with New.
type Measurer[T any] struct {
	measure func(path string) (T, error)
	timeout time.Duration

	mu      sync.Mutex
	pending map[string]*pendingCall[T]
}

type pendingCall[T any] struct {
	since time.Time
	done  chan struct{}
	value T
	err   error
}

// New returns an Measurer.
func New[T any](measure func(path string) (T, error)) *Measurer[T] {
	return NewWithTimeout(measure, Timeout)
}

// NewWithTimeout returns a Measurer whose callers wait for another time than Timeout.
func NewWithTimeout[T any](measure func(path string) (T, error), timeout time.Duration) *Measurer[T] {
	return &Measurer[T]{measure: measure, timeout: timeout, pending: map[string]*pendingCall[T]{}}
}

// Measure returns the answer. Callers that ask of the same path at the same time share one
// question.
func (a *Measurer[T]) Measure(path string) (T, error) {
	a.mu.Lock()
	q := a.pending[path]
	if q == nil {
		q = &pendingCall[T]{since: time.Now(), done: make(chan struct{})}
		a.pending[path] = q
		go func() {
			q.value, q.err = a.measure(path)
			a.mu.Lock()
			delete(a.pending, path)
			a.mu.Unlock()
			close(q.done)
		}()
	}
	a.mu.Unlock()
	timer := time.NewTimer(a.timeout - time.Since(q.since))
	defer timer.Stop()
	select {
	case <-q.done:
		return q.value, q.err
	case <-timer.C:
		var zero T
		return zero, fmt.Errorf("measuring %s hangs since %s: a file server that does not answer?", path,
			q.since.Format(time.RFC3339))
	}
}
