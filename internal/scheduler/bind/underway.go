package bind

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// forgotten is how long after its victims were asked to leave a preemption is remembered whose Pod never came back.
const forgotten = time.Minute

// underWay knows for whom victims are being made to leave, by the preemptor's UID.
type underWay struct {
	mu        sync.Mutex
	jobs      map[types.UID]*leaving
	forgotten []types.UID // until the next Pod goes
}

// leaving is one preemption. It is over when the scheduler itself has seen the last victim go: a Pod that is tried earlier finds the victims still standing
// where it wants to be, and would ask for them, or others, once more.
type leaving struct {
	last  types.UID // the victim that goes last; empty: others are being made to leave before it
	asked time.Time // when it had been asked to leave; zero: not yet
	over  bool      // it was seen leaving before the answer came
}

func (u *underWay) begin(preemptor types.UID, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for uid, l := range u.jobs {
		if !l.asked.IsZero() && now.Sub(l.asked) > forgotten {
			delete(u.jobs, uid)
			u.forgotten = append(u.forgotten, uid)
		}
	}
	if u.jobs == nil {
		u.jobs = map[types.UID]*leaving{}
	}
	u.jobs[preemptor] = &leaving{}
}

// waitsFor is called before the last victim is asked.
func (u *underWay) waitsFor(preemptor, victim types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if l := u.jobs[preemptor]; l != nil {
		l.last = victim
	}
}

// asked is called when all victims have been asked.
func (u *underWay) asked(preemptor types.UID, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if l := u.jobs[preemptor]; l != nil {
		if l.asked = now; l.over {
			delete(u.jobs, preemptor)
		}
	}
}

// over names those whose wait may be over now that a Pod went: it was their last victim, or that one is seen leaving, or they were forgotten.
func (u *underWay) over(gone types.UID, standing func(types.UID) *v1.Pod) []types.UID {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := u.forgotten
	u.forgotten = nil
	for uid, l := range u.jobs {
		if l.last == gone || !l.asked.IsZero() && !stays(standing(l.last)) {
			out = append(out, uid)
		}
	}
	return out
}

// stays tells whether a Pod stands on a node and is not seen leaving.
func stays(p *v1.Pod) bool { return p != nil && p.DeletionTimestamp == nil }

// end forgets a preemption, because it failed.
func (u *underWay) end(preemptor types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.jobs, preemptor)
}

// holds tells whether a Pod's victims are still to be waited for; standing gives a Pod that stands on a node, nil for others.
func (u *underWay) holds(preemptor types.UID, standing func(types.UID) *v1.Pod) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	l := u.jobs[preemptor]
	if l == nil {
		return false
	}
	if l.last == "" {
		return true
	}
	if stays(standing(l.last)) {
		return true
	}
	if l.over = true; !l.asked.IsZero() {
		delete(u.jobs, preemptor)
	}
	return false
}
