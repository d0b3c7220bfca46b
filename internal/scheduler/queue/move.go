package queue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"
)

// wish is how a Pod should be woken, why, and which plugin thinks so.
type wish struct {
	worth worth
	cause string
	by    string
	about any
}

// wake puts a Pod where the wish says; not worth waking, it is parked.
func (q *Queue) wake(e *Entry, w wish, now time.Time) Move {
	switch {
	case w.worth == leave:
		return q.put(e, Unschedulable, w)
	case w.worth == later && e.BackoffUntil.After(now):
		return q.put(e, Backoff, w)
	}
	return q.put(e, Active, w)
}

// put moves an entry; one whose gate is closed is parked instead of queued.
func (q *Queue) put(e *Entry, to Place, w wish) Move {
	q.lift(e)
	if to == Active || to == Backoff {
		if s := q.gate(e); s != nil {
			to, w.by = Gated, s.Plugin()
		}
	}
	e.Place = to
	if w.cause != CauseBackoff { // which only ends what another cause began
		e.Flushed = w.cause == CauseTimeout
	}
	switch to {
	case Active:
		q.active.push(e)
	case Backoff:
		q.backoffs(e).push(e)
	default:
		q.parked.add(e, q.MaxParked)
	}
	return Move{Entry: e, To: to, Cause: w.cause, By: w.by, About: w.about}
}

// lift takes an entry out of the place it stands in.
func (q *Queue) lift(e *Entry) {
	switch e.Place {
	case Active:
		q.active.remove(e)
	case Backoff:
		q.backoffs(e).remove(e)
	case Unschedulable, Gated:
		q.parked.remove(e)
	}
	e.Place = ""
}

// gate asks the gate; nil when it is open.
func (q *Queue) gate(e *Entry) *framework.Status {
	if q.Gate == nil {
		return nil
	}
	s := q.Gate(e.Pod())
	if s.IsSuccess() {
		e.GatedBy, e.gatingEvents = "", nil
		return nil
	}
	e.GatedBy, e.gatingEvents = s.Plugin(), q.eventsOf(e.Pod().Spec.SchedulerName, s.Plugin())
	return s
}

// opens tells whether the gate of a gated Pod is open now; another gate may have closed instead.
func (q *Queue) opens(e *Entry) bool {
	q.parked.remove(e)
	defer q.parked.add(e, q.MaxParked)
	return q.gate(e) == nil
}

// Count gives how many Pods stand where.
type Count struct{ Active, Backoff, Unschedulable, Gated, InFlight int }

// Count counts.
func (q *Queue) Count() Count {
	return Count{
		Active: q.active.n, Backoff: q.backoff.n + q.errors.n, InFlight: q.flight.len(),
		Gated: q.parked.gated, Unschedulable: len(q.parked.all) - q.parked.gated,
	}
}

// Find gives a Pod's entry; nil when the Pod is not waiting here.
func (q *Queue) Find(uid types.UID) *Entry { return q.all[uid] }

// Entries lists all waiting Pods by arrival.
func (q *Queue) Entries() []*Entry {
	out := make([]*Entry, 0, len(q.all))
	for _, e := range q.all {
		out = append(out, e)
	}
	return byArrival(out)
}
