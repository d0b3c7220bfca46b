package queue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"
)

// moveRequest is how a Pod is to be moved (hint), the event that is the cause, the plugin that says
// so (by), and the object of the event.
type moveRequest struct {
	hint   hintResult
	cause  string
	by     string
	object any
}

// moveToActiveOrBackoff moves an entry to activeQ or, while its back-off lasts, to backoffQ, as the
// hint says; to the unschedulable pods when it says skip.
func (q *Queue) moveToActiveOrBackoff(e *Entry, w moveRequest, now time.Time) Move {
	switch {
	case w.hint == queueSkip:
		return q.moveTo(e, Unschedulable, w)
	case w.hint == queueAfterBackoff && e.BackoffExpiration.After(now):
		return q.moveTo(e, Backoff, w)
	}
	return q.moveTo(e, Active, w)
}

// moveTo moves an entry to a stage; to Gated instead of Active or Backoff when PreEnqueue refuses
// it.
func (q *Queue) moveTo(e *Entry, to Stage, w moveRequest) Move {
	q.removeFromStage(e)
	if to == Active || to == Backoff {
		if s := q.runPreEnqueue(e); s != nil {
			to, w.by = Gated, s.Plugin()
		}
	}
	e.Stage = to
	if w.cause != CauseBackoff { // which only ends what another cause began
		e.FlushedFromUnschedulable = w.cause == CauseTimeout
	}
	switch to {
	case Active:
		q.activeQ.push(e)
	case Backoff:
		q.backoffQOf(e).push(e)
	default:
		q.unschedulable.add(e, q.MaxUnschedulableTime)
	}
	return Move{Entry: e, Stage: to, Cause: w.cause, Plugin: w.by, Object: w.object}
}

// removeFromStage takes an entry out of the stage it waits in.
func (q *Queue) removeFromStage(e *Entry) {
	switch e.Stage {
	case Active:
		q.activeQ.remove(e)
	case Backoff:
		q.backoffQOf(e).remove(e)
	case Unschedulable, Gated:
		q.unschedulable.remove(e)
	}
	e.Stage = ""
}

// runPreEnqueue asks the PreEnqueue plugins; nil when they let the Pod in.
func (q *Queue) runPreEnqueue(e *Entry) *framework.Status {
	if q.PreEnqueue == nil {
		return nil
	}
	s := q.PreEnqueue(e.Pod())
	if s.IsSuccess() {
		e.GatingPlugin, e.gatingEvents = "", nil
		return nil
	}
	e.GatingPlugin, e.gatingEvents = s.Plugin(), q.eventsOf(e.Pod().Spec.SchedulerName, s.Plugin())
	return s
}

// isUngated tells whether PreEnqueue lets a gated Pod in now; it notes which plugin gates it
// otherwise.
func (q *Queue) isUngated(e *Entry) bool {
	q.unschedulable.remove(e)
	defer q.unschedulable.add(e, q.MaxUnschedulableTime)
	return q.runPreEnqueue(e) == nil
}

// StageCounts are how many Pods wait where.
type StageCounts struct{ Active, Backoff, Unschedulable, Gated, InFlight int }

// StageCounts counts the Pods by stage.
func (q *Queue) StageCounts() StageCounts {
	return StageCounts{
		Active: q.activeQ.n, Backoff: q.backoffQ.n + q.errorBackoffQ.n, InFlight: q.inFlight.len(),
		Gated: q.unschedulable.gated, Unschedulable: len(q.unschedulable.all) - q.unschedulable.gated,
	}
}

// Find is a Pod's entry; nil when the Pod does not wait here.
func (q *Queue) Find(uid types.UID) *Entry { return q.entries[uid] }

// PendingPods lists all waiting entries by arrival.
func (q *Queue) PendingPods() []*Entry {
	out := make([]*Entry, 0, len(q.entries))
	for _, e := range q.entries {
		out = append(out, e)
	}
	return sortByArrival(out)
}
