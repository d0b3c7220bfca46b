package loop

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// expectTimeout is after how long an expectation is given up, as a lost watch event would block a controller for ever otherwise.
const expectTimeout = 5 * time.Minute

// Expectations remember the creations and deletions a controller asked for and has not yet seen in its cache, so that it does not ask twice.
type Expectations struct {
	mu  sync.Mutex
	set map[string]*expectation
}

type expectation struct {
	creations int
	deletions map[string]bool // by UID
	since     time.Time
}

// NewExpectations makes an empty set.
func NewExpectations() *Expectations { return &Expectations{set: map[string]*expectation{}} }

// Satisfied tells whether everything asked for under key has been seen, or was asked for too long ago.
func (e *Expectations) Satisfied(key string, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.set[key]
	return x == nil || x.creations <= 0 && len(x.deletions) == 0 || now.Sub(x.since) > expectTimeout
}

// Expect begins a new set of creations and deletions.
func (e *Expectations) Expect(key string, creations int, deletions []*corev1.Pod, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := &expectation{creations: creations, deletions: map[string]bool{}, since: now}
	for _, p := range deletions {
		x.deletions[string(p.UID)] = true
	}
	e.set[key] = x
}

// Created notes that n creations were seen, or failed and will not be.
func (e *Expectations) Created(key string, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.set[key]; x != nil {
		x.creations -= n
	}
}

// Deleted notes that a deletion was seen, or failed.
func (e *Expectations) Deleted(key, what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.set[key]; x != nil {
		delete(x.deletions, what)
	}
}

// Note meets what was expected of owners by what happened to one of their Pods: it came, or it is going or gone.
func (e *Expectations) Note(owners []string, old, cur runtime.Object) {
	was, _ := old.(*corev1.Pod)
	is, _ := cur.(*corev1.Pod)
	for _, key := range owners {
		switch {
		case was == nil:
			e.Created(key, 1)
		case is == nil || is.DeletionTimestamp != nil:
			e.Deleted(key, string(was.UID))
		}
	}
}

// Forget drops what is expected under key.
func (e *Expectations) Forget(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.set, key)
}
