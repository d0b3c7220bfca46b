package scheduler

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/metrics"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// schedulingAttempt is one attempt to schedule a Pod. The scheduling cycle owns it, then the
// binding cycle; never both at once.
type schedulingAttempt struct {
	entry          *queue.Entry
	profile        *frameworkruntime.Profile
	state          *frameworkruntime.CycleState
	start          time.Time
	result         *schedule.Result // nil once the Pod is assumed: the next cycle uses its buffers
	fact           journal.Ruled    // of the result
	pointDurations map[string]journal.Took

	lastPoint      string         // extension point entered last
	failedPoint    string         // extension point where the attempt ended without success
	failedCode     framework.Code // how
	postFilterCode framework.Code // what PostFilter came to
}

// newAttempt begins an attempt now.
func newAttempt(e *queue.Entry, p *frameworkruntime.Profile) *schedulingAttempt {
	return &schedulingAttempt{entry: e, profile: p, state: frameworkruntime.NewCycleState(), start: time.Now(),
		pointDurations: map[string]journal.Took{}}
}

func (a *schedulingAttempt) pod() *v1.Pod { return a.entry.Pod() }

// timePoint notes that an extension point is entered; the caller calls done when it is left.
func (a *schedulingAttempt) timePoint(point string) (done func()) {
	a.lastPoint = point
	began := time.Now()
	return func() { a.pointDurations[point] += journal.Took(time.Since(began)) }
}

// metric is the attempt, ended with a result, as metrics count it.
func (a *schedulingAttempt) metric(result string) metrics.Attempt {
	return metrics.Attempt{Profile: a.profile.Name, Result: result, Start: a.start, PointDurations: a.pointDurations,
		FailedPoint: a.failedPoint, FailedCode: a.failedCode, PostFilterCode: a.postFilterCode}
}
