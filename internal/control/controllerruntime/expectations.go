package controllerruntime

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// expectationsTimeout is after how long an expectation is given up, as a lost watch event would
// block a controller for ever otherwise.
const expectationsTimeout = 5 * time.Minute

// Expectations remember the creations and deletions a controller asked for and has not yet seen in
// its cache, so that it does not ask twice.
type Expectations struct {
	mu    sync.Mutex
	byKey map[string]*podExpectation
}

type podExpectation struct {
	creations int
	deletions map[string]bool // by UID
	since     time.Time
}

// NewExpectations makes an empty set.
func NewExpectations() *Expectations { return &Expectations{byKey: map[string]*podExpectation{}} }

// SatisfiedExpectations tells whether everything asked for under key has been seen, or was asked
// for too long ago.
func (e *Expectations) SatisfiedExpectations(key string, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.byKey[key]
	return x == nil || x.creations <= 0 && len(x.deletions) == 0 || now.Sub(x.since) > expectationsTimeout
}

// SetExpectations begins a new set of creations and deletions.
func (e *Expectations) SetExpectations(key string, creations int, deletions []*corev1.Pod, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := &podExpectation{creations: creations, deletions: map[string]bool{}, since: now}
	for _, p := range deletions {
		x.deletions[string(p.UID)] = true
	}
	e.byKey[key] = x
}

// CreationObserved notes that n creations were seen, or failed and will not be.
func (e *Expectations) CreationObserved(key string, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.byKey[key]; x != nil {
		x.creations -= n
	}
}

// DeletionObserved notes that a deletion was seen, or failed.
func (e *Expectations) DeletionObserved(key, what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.byKey[key]; x != nil {
		delete(x.deletions, what)
	}
}

// ObservePod meets what was expected of owners by what happened to one of their Pods: it came, or
// it is going or gone.
func (e *Expectations) ObservePod(owners []string, old, cur runtime.Object) {
	was, _ := old.(*corev1.Pod)
	is, _ := cur.(*corev1.Pod)
	for _, key := range owners {
		switch {
		case was == nil:
			e.CreationObserved(key, 1)
		case is == nil || is.DeletionTimestamp != nil:
			e.DeletionObserved(key, string(was.UID))
		}
	}
}

// DeleteExpectations drops what is expected under key.
func (e *Expectations) DeleteExpectations(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.byKey, key)
}
