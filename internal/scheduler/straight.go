package scheduler

import (
	"context"
	"time"

	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/glue"
)

// offeredAtMost is how many bindings are gathered before they leave, while more Pods are there to be scheduled.
const offeredAtMost = 16

// offeredFor is how long they are gathered.
const offeredFor = 2 * time.Millisecond

// straight binds a Pod for which nothing is left to do but that, and nobody waits for the answer; false: it must go the long way.
func (s *Scheduler) straight(ctx context.Context, a *attempt, c glue.Cycle, f journal.Bound) bool {
	if !s.statuses.Silent(c.Pod.UID) {
		return false
	}
	s.binding.Add(1)
	began := a.profile.Straight(ctx, c, func(done bool, status *framework.Status) {
		defer s.binding.Done()
		switch {
		case !done:
			s.theLongWay(ctx, a, c, f)
		case status.IsSuccess():
			a.profile.PostBind(ctx, c)
			f.Took = journal.Took(time.Since(a.Arrived))
			s.bound(ctx, a, c, f)
		default:
			s.beside("binding")(func() { s.unbound(ctx, a, c, s.binder.Unbound(ctx, a.profile, c, status)) })
		}
	})
	if !began {
		s.binding.Done()
		return false
	}
	s.decided(c.Pod)
	if s.offered == 0 {
		s.offeredAt = time.Now()
	}
	if s.offered++; s.offered >= offeredAtMost {
		s.flush()
	}
	return true
}

// lateOffer lets bindings leave that have waited for company long enough.
func (s *Scheduler) lateOffer(now time.Time) {
	if s.offered > 0 && now.Sub(s.offeredAt) > offeredFor {
		s.flush()
	}
}

// flush lets bindings leave that were offered.
func (s *Scheduler) flush() {
	if s.offered > 0 {
		s.offered = 0
		s.quick.Flush()
	}
}
