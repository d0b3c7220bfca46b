package scheduler

import (
	"context"
	"time"

	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
)

// maxBindBatch is how many bindings are gathered before they leave, while more Pods are there to be
// scheduled.
const maxBindBatch = 16

// maxBindBatchWait is how long they are gathered.
const maxBindBatchWait = 2 * time.Millisecond

// bindInline binds a Pod for which nothing is left to do but that, and nobody waits for the answer;
// false: it must go the long way.
func (s *Scheduler) bindInline(ctx context.Context, a *schedulingAttempt, c frameworkruntime.PodCycle,
	f journal.Bound) bool {
	if !s.statuses.WritesNothing(c.Pod.UID) {
		return false
	}
	s.bindings.Add(1)
	began := a.profile.RunBindPluginsInline(ctx, c, func(done bool, status *framework.Status) {
		defer s.bindings.Done()
		switch {
		case !done:
			s.bindAsync(ctx, a, c, f)
		case status.IsSuccess():
			a.profile.RunPostBindPlugins(ctx, c)
			f.Took = journal.Took(time.Since(a.AddedAt))
			s.recordBound(ctx, a, c, f)
		default:
			s.goroutine("binding")(
				func() { s.handleBindingCycleError(ctx, a, c, s.binder.HandleBindFailure(ctx, a.profile, c, status)) })
		}
	})
	if !began {
		s.bindings.Done()
		return false
	}
	s.doneWithQueue(c.Pod)
	if s.batched == 0 {
		s.batchedAt = time.Now()
	}
	if s.batched++; s.batched >= maxBindBatch {
		s.flushBindings()
	}
	return true
}

// flushLateBindings lets bindings leave that have waited for company long enough.
func (s *Scheduler) flushLateBindings(now time.Time) {
	if s.batched > 0 && now.Sub(s.batchedAt) > maxBindBatchWait {
		s.flushBindings()
	}
}

// flushBindings lets bindings leave that were offered.
func (s *Scheduler) flushBindings() {
	if s.batched > 0 {
		s.batched = 0
		s.writer.Flush()
	}
}
