// Package measure asks for the sizes of directories and file systems, and waits for each only so long.
//
// Chapter: furnished. A file server that is away keeps whoever asks for its size: a question that is not answered in time is given up by the caller, goes on by itself, and is not
// asked again before it has ended. In: functions that ask the kernel. Out: their answers, or an error naming path and since when.
package measure

import (
	"fmt"
	"sync"
	"time"
)

// Patience is how long a caller waits.
const Patience = 5 * time.Second

// Asker asks one kind of question about paths. The zero value is not usable; make it with New.
type Asker[T any] struct {
	ask      func(path string) (T, error)
	patience time.Duration

	mu   sync.Mutex
	open map[string]*question[T]
}

type question[T any] struct {
	since time.Time
	done  chan struct{}
	value T
	err   error
}

// New returns an Asker.
func New[T any](ask func(path string) (T, error)) *Asker[T] {
	return &Asker[T]{ask: ask, patience: Patience, open: map[string]*question[T]{}}
}

// Ask returns the answer. Callers that ask of the same path at the same time share one question.
func (a *Asker[T]) Ask(path string) (T, error) {
	a.mu.Lock()
	q := a.open[path]
	if q == nil {
		q = &question[T]{since: time.Now(), done: make(chan struct{})}
		a.open[path] = q
		go func() {
			q.value, q.err = a.ask(path)
			a.mu.Lock()
			delete(a.open, path)
			a.mu.Unlock()
			close(q.done)
		}()
	}
	a.mu.Unlock()
	timer := time.NewTimer(a.patience - time.Since(q.since))
	defer timer.Stop()
	select {
	case <-q.done:
		return q.value, q.err
	case <-timer.C:
		var zero T
		return zero, fmt.Errorf("measuring %s hangs since %s: a file server that does not answer?", path, q.since.Format(time.RFC3339))
	}
}

// Hanging lists the paths whose question has not been answered in time, with when it was asked.
func (a *Asker[T]) Hanging() map[string]time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]time.Time{}
	for path, q := range a.open {
		if time.Since(q.since) >= a.patience {
			out[path] = q.since
		}
	}
	return out
}
