package scheduler

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/bind"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
)

// schedulingQueue is the queue, and what the cache assumes, as the scheduling cycle sees them.
type schedulingQueue interface {
	inFlightQueue
	pop(flush bool) popped
	isAssumed(uid types.UID) bool
}

// podScheduler finds a node for the Pod of an attempt.
type podScheduler interface {
	// schedulePod sets the attempt's result and fact. The error is that a plugin panicked or hung.
	schedulePod(ctx context.Context, a *schedulingAttempt) error
}

// bindings bind Pods that have been assumed and reserved, beside the scheduling cycles.
type bindings interface {
	start(ctx context.Context, a *schedulingAttempt, c frameworkruntime.PodCycle, f journal.Bound)
	flush()
	flushLate(now time.Time)
}

// schedulingCycle takes Pods off the queue one by one, has a node found for each, assumes it there
// and starts its binding cycle; or has what failed put back. One goroutine runs it.
type schedulingCycle struct {
	profiles  map[string]*frameworkruntime.Profile // by scheduler name
	queue     schedulingQueue
	wake      <-chan struct{} // a Pod may be in the queue
	algorithm podScheduler
	binder    *bind.Binder
	bindings  bindings
	failures  failureHandler
	facts     *attemptFacts
	podGroups *podGroupCycle // nil without the gate GenericWorkload

	emulates136 bool // FailedScheduling is in the words of v1.36
	flushNow    bool // the next pop moves Pods whose time is over
}

// run schedules until ctx ends.
func (s *schedulingCycle) run(ctx context.Context) {
	defer s.bindings.flush() // what the last cycle bound
	for ctx.Err() == nil {
		if e := s.nextPod(ctx); e != nil {
			s.scheduleOne(ctx, e)
		}
	}
}

// nextPod waits for a Pod to schedule; nil when ctx ended or it should be called again.
func (s *schedulingCycle) nextPod(ctx context.Context) *queue.Entry {
	next := s.queue.pop(s.flushNow)
	s.flushNow = false
	if next.entry != nil {
		s.bindings.flushLate(next.at)
		return next.entry
	}
	s.bindings.flush()
	var timer <-chan time.Time
	if !next.wake.IsZero() {
		t := time.NewTimer(time.Until(next.wake))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-s.wake:
	case <-timer:
		s.flushNow = true
	case <-ctx.Done():
	}
	return nil
}

// scheduleOne runs one scheduling cycle, for a Pod or for the PodGroup it belongs to, and starts
// the binding cycle beside the next.
func (s *schedulingCycle) scheduleOne(ctx context.Context, e *queue.Entry) {
	if s.podGroups.takes(e) {
		s.bindings.flush() // a group may take long
		s.podGroups.schedulePodGroup(ctx, e)
		return
	}
	a := newAttempt(e, s.profiles[e.Pod().Spec.SchedulerName])
	logger := klog.FromContext(ctx).WithValues("pod", klog.KObj(a.pod()))
	if skipPodSchedule(s.queue, s.facts, a) {
		s.queue.done(a.pod())
		return
	}
	logger.V(4).Info("Scheduling pod", "attempt", e.Attempts)
	if err := s.algorithm.schedulePod(ctx, a); err != nil {
		s.handleBrokenCycle(ctx, a, err)
		return
	}
	logResult(logger, a)
	if !a.result.Scheduled() {
		s.handleUnschedulable(ctx, a)
		return
	}
	s.facts.placed(a)
	c := podCycle(a)
	if f := s.binder.AssumeAndReserve(ctx, a.profile, c); f != nil {
		s.failures.handleBindingCycleError(ctx, a, c, f)
		return
	}
	next, lead := a.result.RunnerUp, a.result.Lead
	a.result = nil // the next cycle uses its buffers
	s.bindings.start(ctx, a, c, journal.Bound{Node: c.Node, Next: next, Lead: lead})
}

// podCycle is the Pod of an attempt on the node that its result suggests.
func podCycle(a *schedulingAttempt) frameworkruntime.PodCycle {
	node := a.result.SuggestedHost
	return frameworkruntime.PodCycle{State: a.state, Pod: bind.WithNodeName(a.pod(), node), Node: node}
}

// skipPodSchedule tells whether a Pod need not be scheduled: it is being deleted, or has a node by
// assumption.
func skipPodSchedule(q schedulingQueue, facts *attemptFacts, a *schedulingAttempt) bool {
	if a.pod().DeletionTimestamp != nil {
		facts.skippedDeleting(a)
		return true
	}
	return q.isAssumed(a.pod().UID)
}

// handleBrokenCycle puts back a Pod whose cycle a plugin broke.
func (s *schedulingCycle) handleBrokenCycle(ctx context.Context, a *schedulingAttempt, err error) {
	s.failures.handleSchedulingFailure(ctx, a, failure{status: framework.AsStatus(err), message: err.Error(),
		fact: journal.Ruled{Profile: a.profile.Name, Attempt: a.entry.Attempts, Message: err.Error(),
			Took: journal.Took(time.Since(a.start))}})
}

// handleUnschedulable runs PostFilter for a Pod that fits nowhere and puts it back.
func (s *schedulingCycle) handleUnschedulable(ctx context.Context, a *schedulingAttempt) {
	s.bindings.flush() // preemption may take long
	r := a.result
	out := failure{status: r.Status, unschedulablePlugins: r.UnschedulablePlugins, pendingPlugins: r.PendingPlugins}
	if !r.Failed() && r.Nodes() > 0 && a.profile.HasPostFilterPlugins() {
		done := a.timePoint("PostFilter")
		result, status := a.profile.RunPostFilterPlugins(ctx, frameworkruntime.PodCycle{State: a.state, Pod: a.pod()},
			r.NodeToStatus())
		done()
		if status.IsError() {
			klog.FromContext(ctx).Error(status.AsError(), "PostFilter failed", "pod", klog.KObj(a.pod()))
		}
		a.postFilterCode = status.Code()
		r.PostFilterMsg = unresolvableMessage(s.emulates136, a.pod(), status)
		if result != nil && result.NominatingInfo != nil && result.Mode() == framework.ModeOverride {
			out.nominatedNode = &result.NominatedNodeName
		}
	}
	out.message = r.Message()
	a.fact.Message, a.fact.Took = out.message, journal.Took(time.Since(a.start))
	out.fact = a.fact
	s.failures.handleSchedulingFailure(ctx, a, out)
}

// logResult logs the cycle: how many nodes passed Filter, their scores, the node selected.
func logResult(logger klog.Logger, a *schedulingAttempt) {
	v := logger.V(4)
	if !v.Enabled() {
		return
	}
	f := &a.fact
	if f.Feasible == 0 {
		v.Info("No node fits", "totalNodes", f.Nodes, "visitedNodes", f.Visited, "message", f.Message)
		return
	}
	v.Info("Filter passed", "feasibleNodes", f.Feasible, "totalNodes", f.Nodes,
		"sampledFraction", float64(f.Visited)/float64(f.Nodes))
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
