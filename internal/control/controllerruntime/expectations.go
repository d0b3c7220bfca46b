package controllerruntime

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// expectationsTimeout is when an expectation expires; a lost watch event would block its controller
// for ever otherwise.
const expectationsTimeout = 5 * time.Minute

// Expectations records the creations and deletions that a controller requested and has not seen in
// its cache yet, so that it does not repeat them. It is safe for concurrent use.
type Expectations struct {
	mu    sync.Mutex
	byKey map[string]*podExpectation
}

type podExpectation struct {
	creations int
	deletions map[string]bool // by UID
	since     time.Time
}

// NewExpectations returns an empty set.
func NewExpectations() *Expectations { return &Expectations{byKey: map[string]*podExpectation{}} }

// SatisfiedExpectations reports whether everything expected for key was observed or has expired.
func (e *Expectations) SatisfiedExpectations(key string, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.byKey[key]
	return x == nil || x.creations <= 0 && len(x.deletions) == 0 || now.Sub(x.since) > expectationsTimeout
}

// SetExpectations replaces the expectations for key. The caller sets them before its requests.
func (e *Expectations) SetExpectations(key string, creations int, deletions []*corev1.Pod, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := &podExpectation{creations: creations, deletions: map[string]bool{}, since: now}
	for _, p := range deletions {
		x.deletions[string(p.UID)] = true
	}
	e.byKey[key] = x
}

// CreationObserved notes that n creations were observed, or failed.
func (e *Expectations) CreationObserved(key string, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.byKey[key]; x != nil {
		x.creations -= n
	}
}

// DeletionObserved notes that the deletion of a Pod, by UID, was observed or failed.
func (e *Expectations) DeletionObserved(key, what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.byKey[key]; x != nil {
		delete(x.deletions, what)
	}
}

// ObservePod lowers the expectations of owners by an event of one of their Pods: added if old is
// nil, deleted or terminating otherwise.
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

// DeleteExpectations drops the expectations for key.
func (e *Expectations) DeleteExpectations(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.byKey, key)
}
