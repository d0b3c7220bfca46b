package scheduler

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/bind"
	"github.com/gantry-project/gantry/internal/scheduler/glue"
	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
)

// attempt is one try to place a Pod.
type attempt struct {
	*queue.Entry
	profile *glue.Profile
	state   *glue.State
	began   time.Time
	ruling  *place.Ruling
	fact    journal.Ruled // of the ruling
	nodes   int           // in the snapshot
	points  map[string]journal.Took

	last    string // point entered last
	endedAt string // point where the attempt ended without success
	endedBy framework.Code
	hunted  framework.Code // what PostFilter came to
}

func (a *attempt) time(point string) func() {
	a.last = point
	began := time.Now()
	return func() { a.points[point] += journal.Took(time.Since(began)) }
}

// schedule runs one scheduling cycle and, when it finds a node, starts the binding cycle beside the next.
func (s *Scheduler) schedule(ctx context.Context, e *queue.Entry) {
	p := e.Pod()
	if s.gangs.of(p) != "" {
		s.scheduleGang(ctx, e)
		return
	}
	a := &attempt{Entry: e, profile: s.profiles[p.Spec.SchedulerName], state: glue.NewState(), began: time.Now(), points: map[string]journal.Took{}}
	a.state.Measured = s.measured()
	logger := klog.FromContext(ctx).WithValues("pod", klog.KObj(p))
	if s.skips(a) {
		s.decided(p)
		return
	}
	logger.V(4).Info("Scheduling pod", "attempt", e.Attempts)
	if err := s.judged(ctx, a); err != nil {
		s.broken(ctx, a, err)
		return
	}
	s.report(logger, a)
	if !a.ruling.Fits() {
		s.unplaced(ctx, a)
		return
	}
	s.startsAt += a.ruling.Visited
	s.Journal.Put(ref(p), a.fact)
	c := glue.Cycle{State: a.state, Pod: bind.On(p, a.ruling.Winner), Node: a.ruling.Winner}
	if f := s.binder.Claim(ctx, a.profile, c); f != nil {
		s.unbound(ctx, a, c, f)
		return
	}
	next, lead := a.ruling.RunnerUp, a.ruling.Lead
	a.ruling = nil // its memory is the next cycle's
	s.commit(ctx, a, c, journal.Bound{Node: c.Node, Next: next, Lead: lead})
}

// commit carries the choice out beside the next cycles.
func (s *Scheduler) commit(ctx context.Context, a *attempt, c glue.Cycle, f journal.Bound) {
	if !s.straight(ctx, a, c, f) {
		s.theLongWay(ctx, a, c, f)
	}
}

// theLongWay goes through all points with a goroutine that waits where there is something to wait for.
func (s *Scheduler) theLongWay(ctx context.Context, a *attempt, c glue.Cycle, f journal.Bound) {
	s.beside("binding")(func() {
		s.statuses.Settle(ctx, c.Pod.UID)
		if a.profile.Lingers(ctx, c) {
			s.statuses.Expect(ctx, c.Pod, c.Node)
		}
		if f := s.binder.Commit(ctx, a.profile, c); f != nil {
			s.unbound(ctx, a, c, f)
			return
		}
		f.Took = journal.Took(time.Since(a.Arrived))
		s.bound(ctx, a, c, f)
	})
}

// skips tells whether the Pod need not be scheduled: it is being deleted, or has a node by assumption.
func (s *Scheduler) skips(a *attempt) bool {
	p := a.Pod()
	if p.DeletionTimestamp != nil {
		a.profile.Handle.EventRecorder().Eventf(p, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "skip schedule deleting pod: %v/%v", p.Namespace, p.Name)
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.world.Assumed(p.UID)
}

// rule asks every plugin about every node.
func (s *Scheduler) rule(ctx context.Context, a *attempt) {
	s.mu.Lock()
	world := s.world.Freeze()
	promised := s.nominated.Nodes()
	s.mu.Unlock()
	s.current.Set(world)
	in := place.In{
		Pod: a.Pod(), World: world, Judges: a.profile.Judges, State: a.state, Each: a.profile.Handle.Each,
		Sample: s.sample(a.profile), Pick: s.pick.IntN, Time: a.time, Boards: &s.boards,
	}
	if a.state.Measured {
		in.Clock = s.meter.clock()
	}
	if all := a.profile.Handle.ExtendersFor(a.Pod()); len(all) > 0 {
		in.Second = all
	}
	if promised != nil {
		in.Promised, in.Nominated = promised, a.profile.Handle.NominatedPodsForNode
		if s.Record == nil { // a recording holds on to what it was given
			in.Pledged = pledges{s}
		}
	}
	record := s.recording(a, &in)
	a.ruling = s.one(ctx, in)
	a.nodes = world.Len()
	if !a.ruling.Fits() {
		a.endedAt, a.endedBy = a.last, a.ruling.End.Code()
	}
	s.meter.ruled(journal.Took(time.Since(a.began)))
	s.meter.asked.count(a.profile.Judges, a.ruling)
	s.meter.asked.kept(a.profile.Name, s.memory.Counts())
	a.fact = a.ruling.Fact()
	a.fact.Attempt, a.fact.Points, a.fact.Took = a.Attempts, a.points, journal.Took(time.Since(a.began))
	record()
}

// sample reads percentageOfNodesToScore: absent and 0 mean upstream's adaptive sample.
func (s *Scheduler) sample(p *glue.Profile) place.Sample {
	percent := s.Config.PercentageOfNodesToScore
	if p.Percent != nil {
		percent = p.Percent
	}
	out := place.Sample{AtLeast: s.AtLeast, StartsAt: s.startsAt}
	switch {
	case percent == nil, *percent == 0:
		out.Percent = place.Adaptive
	default:
		out.Percent = *percent
	}
	return out
}

// report logs the cycle: who passed, who got which score, who was chosen.
func (s *Scheduler) report(logger klog.Logger, a *attempt) {
	v := logger.V(4)
	if !v.Enabled() {
		return
	}
	f := &a.fact
	if f.Feasible == 0 {
		v.Info("No node fits", "totalNodes", f.Nodes, "visitedNodes", f.Visited, "message", f.Message)
		return
	}
	v.Info("Filter passed", "feasibleNodes", f.Feasible, "totalNodes", f.Nodes, "sampledFraction", float64(f.Visited)/float64(f.Nodes))
	for _, n := range f.Scores {
		values := []any{"node", n.Node, "total", n.Total}
		for _, part := range n.Parts {
			values = append(values, part.Plugin, part.Weighted)
		}
		v.Info("Score result", values...)
	}
	reason := "highest score"
	switch {
	case f.Feasible == 1:
		reason = "only feasible node"
	case f.Ties > 1:
		reason = "highest score, chosen among equals"
	}
	v.Info("Selected node", "node", f.Winner, "reason", reason)
}

// bound tells that the API server took the binding.
func (s *Scheduler) bound(ctx context.Context, a *attempt, c glue.Cycle, f journal.Bound) {
	klog.FromContext(ctx).V(2).Info("Successfully bound pod to node", "pod", klog.KObj(c.Pod), "node", c.Node, "evaluatedNodes", a.fact.Visited, "feasibleNodes", a.fact.Feasible)
	s.Journal.Put(ref(c.Pod), f)
	s.quick.Scheduled(ctx, a.profile.Name, c, func() {
		a.profile.Handle.EventRecorder().Eventf(c.Pod, nil, v1.EventTypeNormal, "Scheduled", "Binding", "Successfully assigned %v/%v to %v", c.Pod.Namespace, c.Pod.Name, c.Node)
	})
	s.meter.attempt(a, "scheduled")
	s.meter.placed(a)
}

// unplaced sees what PostFilter plugins can do for a Pod that fits nowhere and puts it back.
func (s *Scheduler) unplaced(ctx context.Context, a *attempt) {
	s.flush() // preemption may take long
	r := a.ruling
	out := outcome{status: r.End, rejectors: r.Rejectors, pending: r.Pending}
	if !r.Failed() && r.Nodes() > 0 && a.profile.HasPostFilter() {
		done := a.time("PostFilter")
		result, status := a.profile.PostFilter(ctx, glue.Cycle{State: a.state, Pod: a.Pod()}, r.Reader())
		done()
		if status.IsError() {
			klog.FromContext(ctx).Error(status.AsError(), "PostFilter failed", "pod", klog.KObj(a.Pod()))
		}
		a.hunted = status.Code()
		r.PostMsg = helpless(s.V136, a.Pod(), status)
		if result != nil && result.NominatingInfo != nil && result.Mode() == framework.ModeOverride {
			out.nominate = &result.NominatedNodeName
		}
	}
	out.message = r.Message()
	a.fact.Message, a.fact.Took = out.message, journal.Took(time.Since(a.began))
	s.Journal.Put(ref(a.Pod()), a.fact)
	s.failed(ctx, a, out)
}
