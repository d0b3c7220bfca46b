package bind

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxForgotten is how long after its victims were evicted a preemption is remembered whose Pod
// never came back.
const maxForgotten = time.Minute

// pendingEvictions are the preemptions whose victims are being evicted, by the preemptor's UID.
type pendingEvictions struct {
	mu          sync.Mutex
	byPreemptor map[types.UID]*evictionProgress
	finished    []types.UID // until the next Pod goes
}

// evictionProgress is one preemption. It is over when the scheduler has seen the last victim go: a
// preemptor that is tried earlier finds the victims still on the node and would evict them, or
// others, once more.
type evictionProgress struct {
	lastVictim     types.UID // the victim that goes last; empty: others are being made to leave before it
	lastDeletedAt  time.Time // when it had been asked to leave; zero: not yet
	lastVictimGone bool      // it was seen leaving before the answer came
}

// begin starts the preemption of a Pod, before its first victim is evicted. Preemptions whose last
// victim has not been seen leaving for maxForgotten are given up.
func (u *pendingEvictions) begin(preemptor types.UID, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for uid, l := range u.byPreemptor {
		if !l.lastDeletedAt.IsZero() && now.Sub(l.lastDeletedAt) > maxForgotten {
			delete(u.byPreemptor, uid)
			u.finished = append(u.finished, uid)
		}
	}
	if u.byPreemptor == nil {
		u.byPreemptor = map[types.UID]*evictionProgress{}
	}
	u.byPreemptor[preemptor] = &evictionProgress{}
}

// setLastVictim is called before the last victim is evicted.
func (u *pendingEvictions) setLastVictim(preemptor, victim types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if l := u.byPreemptor[preemptor]; l != nil {
		l.lastVictim = victim
	}
}

// markAllDeleted is called when all victims have been evicted.
func (u *pendingEvictions) markAllDeleted(preemptor types.UID, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if l := u.byPreemptor[preemptor]; l != nil {
		if l.lastDeletedAt = now; l.lastVictimGone {
			delete(u.byPreemptor, preemptor)
		}
	}
}

// preemptorsOf lists the preemptors whose wait may be over now that a Pod went: it was their last
// victim, or that one is seen terminating, or they were forgotten.
func (u *pendingEvictions) preemptorsOf(gone types.UID, standing func(types.UID) *v1.Pod) []types.UID {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := u.finished
	u.finished = nil
	for uid, l := range u.byPreemptor {
		if l.lastVictim == gone || !l.lastDeletedAt.IsZero() && !isStillRunning(standing(l.lastVictim)) {
			out = append(out, uid)
		}
	}
	return out
}

// isStillRunning tells whether a Pod is on a node and not seen terminating.
func isStillRunning(p *v1.Pod) bool { return p != nil && p.DeletionTimestamp == nil }

// end forgets a preemption that failed.
func (u *pendingEvictions) end(preemptor types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.byPreemptor, preemptor)
}

// isBlocked tells whether a Pod still waits for its victims; standing gives a Pod that is on a
// node, nil for others.
func (u *pendingEvictions) isBlocked(preemptor types.UID, standing func(types.UID) *v1.Pod) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	l := u.byPreemptor[preemptor]
	if l == nil {
		return false
	}
	if l.lastVictim == "" {
		return true
	}
	if isStillRunning(standing(l.lastVictim)) {
		return true
	}
	if l.lastVictimGone = true; !l.lastDeletedAt.IsZero() {
		delete(u.byPreemptor, preemptor)
	}
	return false
}
