package scheduler

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/bind"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// schedulingAttempt is one try to place a Pod.
type schedulingAttempt struct {
	*queue.Entry
	profile        *frameworkruntime.Profile
	state          *frameworkruntime.CycleState
	start          time.Time
	result         *schedule.Result
	fact           journal.Ruled // of the ruling
	nodes          int           // in the snapshot
	pointDurations map[string]journal.Took

	lastPoint      string // point entered last
	failedPoint    string // point where the attempt ended without success
	failedCode     framework.Code
	postFilterCode framework.Code // what PostFilter came to
}

func (a *schedulingAttempt) timePoint(point string) func() {
	a.lastPoint = point
	began := time.Now()
	return func() { a.pointDurations[point] += journal.Took(time.Since(began)) }
}

// scheduleOne runs one scheduling cycle and, when it finds a node, starts the binding cycle beside
// the next.
func (s *Scheduler) scheduleOne(ctx context.Context, e *queue.Entry) {
	p := e.Pod()
	if s.podGroups.keyOf(p) != "" {
		s.schedulePodGroup(ctx, e)
		return
	}
	a := &schedulingAttempt{Entry: e, profile: s.profiles[p.Spec.SchedulerName],
		state: frameworkruntime.NewCycleState(), start: time.Now(), pointDurations: map[string]journal.Took{}}
	a.state.RecordPluginMetrics = s.recordsPluginMetrics()
	logger := klog.FromContext(ctx).WithValues("pod", klog.KObj(p))
	if s.skipPodSchedule(a) {
		s.doneWithQueue(p)
		return
	}
	logger.V(4).Info("Scheduling pod", "attempt", e.Attempts)
	if err := s.runWithTimeout(ctx, a); err != nil {
		s.handleBrokenCycle(ctx, a, err)
		return
	}
	s.logResult(logger, a)
	if !a.result.Scheduled() {
		s.handleUnschedulable(ctx, a)
		return
	}
	s.nextStartNodeIndex += a.result.EvaluatedNodes
	s.Journal.Put(podRef(p), a.fact)
	c := frameworkruntime.PodCycle{State: a.state, Pod: bind.WithNodeName(p, a.result.SuggestedHost),
		Node: a.result.SuggestedHost}
	if f := s.binder.AssumeAndReserve(ctx, a.profile, c); f != nil {
		s.handleBindingCycleError(ctx, a, c, f)
		return
	}
	next, lead := a.result.RunnerUp, a.result.Lead
	a.result = nil // its memory is the next cycle's
	s.startBindingCycle(ctx, a, c, journal.Bound{Node: c.Node, Next: next, Lead: lead})
}

// startBindingCycle carries the choice out beside the next cycles.
func (s *Scheduler) startBindingCycle(ctx context.Context, a *schedulingAttempt, c frameworkruntime.PodCycle,
	f journal.Bound) {
	if !s.bindInline(ctx, a, c, f) {
		s.bindAsync(ctx, a, c, f)
	}
}

// bindAsync goes through all points with a goroutine that waits where there is something to wait
// for.
func (s *Scheduler) bindAsync(ctx context.Context, a *schedulingAttempt, c frameworkruntime.PodCycle, f journal.Bound) {
	s.goroutine("binding")(func() {
		s.statuses.WaitForWrite(ctx, c.Pod.UID)
		if a.profile.WaitsBeforeBind(ctx, c) {
			s.statuses.ClearNominatedNodeName(ctx, c.Pod, c.Node)
		}
		if f := s.binder.BindingCycle(ctx, a.profile, c); f != nil {
			s.handleBindingCycleError(ctx, a, c, f)
			return
		}
		f.Took = journal.Took(time.Since(a.AddedAt))
		s.recordBound(ctx, a, c, f)
	})
}

// skipPodSchedule tells whether the Pod need not be scheduled: it is being deleted, or has a node
// by assumption.
func (s *Scheduler) skipPodSchedule(a *schedulingAttempt) bool {
	p := a.Pod()
	if p.DeletionTimestamp != nil {
		a.profile.Handle.EventRecorder().Eventf(p, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling",
			"skip schedule deleting pod: %v/%v", p.Namespace, p.Name)
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cache.IsAssumedPod(p.UID)
}

// schedulePod asks every plugin about every node.
func (s *Scheduler) schedulePod(ctx context.Context, a *schedulingAttempt) {
	s.mu.Lock()
	snap := s.cache.UpdateSnapshot()
	nominated := s.nominator.NominatedNodes()
	s.mu.Unlock()
	s.currentSnapshot.Set(snap)
	in := schedule.Input{
		Pod: a.Pod(), Snapshot: snap, Plugins: a.profile.Plugins, State: a.state, Parallel: a.profile.Handle.Parallel,
		Sample: s.nodesToScore(a.profile), PickTie: s.rand.IntN, TimePoint: a.timePoint, Buffers: &s.buffers,
	}
	if a.state.RecordPluginMetrics {
		in.PluginTimer = s.metrics.pluginTimer()
	}
	if all := a.profile.Handle.ExtendersFor(a.Pod()); len(all) > 0 {
		in.Extenders = all
	}
	if nominated != nil {
		in.NominatedNodes, in.NominatedPodsForNode = nominated, a.profile.Handle.NominatedPodsForNode
		if s.Record == nil { // a recording holds on to what it was given
			in.Nominations = nominations{s}
		}
	}
	record := s.startRecording(a, &in)
	a.result = s.schedulePodChecked(ctx, in)
	a.nodes = snap.Len()
	if !a.result.Scheduled() {
		a.failedPoint, a.failedCode = a.lastPoint, a.result.Status.Code()
	}
	s.metrics.observePoints(journal.Took(time.Since(a.start)))
	s.metrics.pluginEvaluations.observe(a.profile.Plugins, a.result)
	s.metrics.pluginEvaluations.setCacheCounts(a.profile.Name, s.eqCache.Counts())
	a.fact = a.result.Fact()
	a.fact.Attempt, a.fact.Points, a.fact.Took = a.Attempts, a.pointDurations, journal.Took(time.Since(a.start))
	record()
}

// nodesToScore reads percentageOfNodesToScore: absent and 0 mean upstream's adaptive sample.
func (s *Scheduler) nodesToScore(p *frameworkruntime.Profile) schedule.Sample {
	percent := s.Config.PercentageOfNodesToScore
	if p.PercentageOfNodesToScore != nil {
		percent = p.PercentageOfNodesToScore
	}
	out := schedule.Sample{AtLeast: s.MinFeasibleNodes, StartsAt: s.nextStartNodeIndex}
	switch {
	case percent == nil, *percent == 0:
		out.Percent = schedule.AdaptivePercentage
	default:
		out.Percent = *percent
	}
	return out
}

// logResult logs the cycle: who passed, who got which score, who was chosen.
func (s *Scheduler) logResult(logger klog.Logger, a *schedulingAttempt) {
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

// recordBound tells that the API server took the binding.
func (s *Scheduler) recordBound(ctx context.Context, a *schedulingAttempt, c frameworkruntime.PodCycle,
	f journal.Bound) {
	klog.FromContext(ctx).V(2).Info("Successfully bound pod to node", "pod", klog.KObj(c.Pod), "node", c.Node,
		"evaluatedNodes", a.fact.Visited, "feasibleNodes", a.fact.Feasible)
	s.Journal.Put(podRef(c.Pod), f)
	s.writer.ScheduledEvent(ctx, a.profile.Name, c, func() {
		a.profile.Handle.EventRecorder().Eventf(c.Pod, nil, v1.EventTypeNormal, "Scheduled", "Binding",
			"Successfully assigned %v/%v to %v", c.Pod.Namespace, c.Pod.Name, c.Node)
	})
	s.metrics.observeAttempt(a, "scheduled")
	s.metrics.observeScheduled(a)
}

// handleUnschedulable sees what PostFilter plugins can do for a Pod that fits nowhere and puts it
// back.
func (s *Scheduler) handleUnschedulable(ctx context.Context, a *schedulingAttempt) {
	s.flushBindings() // preemption may take long
	r := a.result
	out := failure{status: r.Status, unschedulablePlugins: r.UnschedulablePlugins, pendingPlugins: r.PendingPlugins}
	if !r.Failed() && r.Nodes() > 0 && a.profile.HasPostFilterPlugins() {
		done := a.timePoint("PostFilter")
		result, status := a.profile.RunPostFilterPlugins(ctx, frameworkruntime.PodCycle{State: a.state, Pod: a.Pod()},
			r.NodeToStatus())
		done()
		if status.IsError() {
			klog.FromContext(ctx).Error(status.AsError(), "PostFilter failed", "pod", klog.KObj(a.Pod()))
		}
		a.postFilterCode = status.Code()
		r.PostFilterMsg = unresolvableMessage(s.V136, a.Pod(), status)
		if result != nil && result.NominatingInfo != nil && result.Mode() == framework.ModeOverride {
			out.nominatedNode = &result.NominatedNodeName
		}
	}
	out.message = r.Message()
	a.fact.Message, a.fact.Took = out.message, journal.Took(time.Since(a.start))
	s.Journal.Put(podRef(a.Pod()), a.fact)
	s.handleSchedulingFailure(ctx, a, out)
}
