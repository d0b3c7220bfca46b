package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/bind"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/gangscheduling"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
)

// podGroupAttempt is one try to place the Pods of a PodGroup: all that wait for a node, in one
// cycle.
type podGroupAttempt struct {
	podGroup *schedulingv1beta1.PodGroup
	state    *frameworkruntime.PodGroupCycleState
	members  []*memberAttempt
	progress gangscheduling.Progress
	status   *framework.Status // nil: it can go
}

// memberAttempt is what became of one of them.
type memberAttempt struct {
	*schedulingAttempt
	podCycle      frameworkruntime.PodCycle // set when it has a node in thought
	nominatedNode string                    // node it was nominated to before
	nextNode      string                    // runner-up
	lead          int64
	failure       failure // why it has none
	attempted     bool
}

func (m *memberAttempt) placed() bool { return m.podCycle.Node != "" }

// schedulePodGroup runs one cycle for the group of a Pod that came off the queue: every member is
// judged in a world where those before it have their nodes. When enough have one, all of these are
// bound; otherwise none is.
func (s *Scheduler) schedulePodGroup(ctx context.Context, e *queue.Entry) {
	s.flushBindings() // a group may take long
	began := time.Now()
	g := s.popPodGroup(ctx, e)
	if len(g.members) == 0 {
		return
	}
	logger := klog.FromContext(ctx).WithValues("podGroup",
		klog.KRef(e.Pod().Namespace, gangscheduling.PodGroupNameOf(e.Pod())))
	logger.V(3).Info("Attempting to schedule pod group", "pods", len(g.members))
	if g.status == nil {
		s.placePodGroup(ctx, g)
		s.metrics.podGroups.algorithm.Observe(time.Since(began).Seconds())
	}
	defer func() { s.metrics.observePodGroup(g, began) }()
	if g.status.IsSuccess() {
		s.bindPodGroup(ctx, g)
		logger.V(2).Info("Successfully scheduled a pod group", "scheduledPods", g.progress.Scheduled,
			"unschedulablePods", len(g.members)-g.countPlaced())
	} else {
		s.releasePodGroup(ctx, g)
		nominations := s.preemptForPodGroup(ctx, g)
		s.requeuePodGroup(ctx, g, nominations)
		logger.V(2).Info("Unable to schedule a pod group", "unschedulablePods", len(g.members),
			"err", g.status.Message())
	}
	s.updatePodGroupStatus(g)
}

// popPodGroup takes the members off the queue. A status says why they cannot be tried together.
func (s *Scheduler) popPodGroup(ctx context.Context, e *queue.Entry) *podGroupAttempt {
	namespace, name := e.Pod().Namespace, gangscheduling.PodGroupNameOf(e.Pod())
	g := &podGroupAttempt{state: frameworkruntime.NewPodGroupCycleState()}
	entries := []*queue.Entry{e}
	s.mu.Lock()
	state, err := s.podGroups.states.PodGroupStates().Get(namespace, name)
	if err == nil {
		now := time.Now()
		for _, p := range state.UnscheduledPods() {
			if other := s.queue.PopPod(p.UID, now); other != nil {
				entries = append(entries, other)
			}
		}
	}
	if g.podGroup, err = s.podGroups.states.PodGroups().Get(namespace, name); err != nil {
		g.status = framework.NewStatus(framework.UnschedulableAndUnresolvable,
			fmt.Sprintf(gangscheduling.NoPodGroup, name))
	}
	s.mu.Unlock()
	slices.SortFunc(entries, func(a, b *queue.Entry) int {
		return cmp.Or(cmp.Compare(pod.Priority(b.Pod()), pod.Priority(a.Pod())),
			a.InitialAttemptTimestamp.Compare(*b.InitialAttemptTimestamp), a.AddedAt.Compare(b.AddedAt),
			cmp.Compare(a.Pod().Name, b.Pod().Name))
	})
	for _, e := range entries {
		a := &schedulingAttempt{Entry: e, profile: s.profiles[e.Pod().Spec.SchedulerName],
			state: frameworkruntime.NewCycleState(), start: time.Now(), pointDurations: map[string]journal.Took{}}
		if s.skipPodSchedule(a) {
			s.doneWithQueue(e.Pod())
			continue
		}
		if one := entries[0].Pod().Spec.SchedulerName; e.Pod().Spec.SchedulerName != one {
			g.status = framework.AsStatus(
				fmt.Errorf("all pods in a single pod group should have the same .spec.schedulerName set, got: %q and "+
					"%q", e.Pod().Spec.SchedulerName, one))
		}
		g.members = append(g.members, &memberAttempt{schedulingAttempt: a})
	}
	g.progress.Remaining = len(g.members)
	if state != nil {
		g.progress.Scheduled = state.ScheduledPodsCount()
	}
	return g
}

// placePodGroup judges the members in order until it is known that the group cannot be complete, or
// all have been judged.
func (s *Scheduler) placePodGroup(ctx context.Context, g *podGroupAttempt) {
	least := gangscheduling.MinCount(g.podGroup)
	if g.status = gangscheduling.Feasible(least, g.progress); g.status.IsRejected() {
		return
	}
	for _, m := range g.members {
		m.start = time.Now()
		m.attempted = true
		if err := s.placeMember(ctx, g, m); err != nil {
			m.failure = failure{status: framework.AsStatus(err), message: err.Error()}
			g.status = framework.AsStatus(fmt.Errorf("failed to schedule other pod from a pod group: %w", err))
			return
		}
		g.progress.Remaining--
		if m.placed() {
			g.progress.Scheduled++
		}
		if g.status = gangscheduling.Feasible(least, g.progress); g.status.IsRejected() {
			return
		}
	}
	if g.status.IsWait() { // cannot be: with nobody remaining it is either reached or out of reach
		g.status = framework.NewStatus(framework.Unschedulable, g.status.Reasons()...)
	}
}

// placeMember judges one Pod and holds the node it would get. The error is one that no other node
// or time would mend now.
func (s *Scheduler) placeMember(ctx context.Context, g *podGroupAttempt, m *memberAttempt) error {
	m.state.RecordPluginMetrics = s.recordsPluginMetrics()
	m.state.SetPodGroupCycle(g.state)
	if err := s.runWithTimeout(ctx, m.schedulingAttempt); err != nil {
		return err
	}
	r := m.result
	m.result = nil // its memory is the next member's
	s.logResult(klog.FromContext(ctx).WithValues("pod", klog.KObj(m.Pod())), m.schedulingAttempt)
	if !r.Scheduled() {
		m.failure = failure{status: r.Status, message: r.Message(), unschedulablePlugins: r.UnschedulablePlugins,
			pendingPlugins: r.PendingPlugins}
		if r.Failed() {
			return r.Status.AsError()
		}
		return nil
	}
	s.nextStartNodeIndex += r.EvaluatedNodes
	s.mu.Lock()
	m.nominatedNode = s.nominator.NominatedNodeName(m.Pod().UID)
	s.mu.Unlock()
	c := frameworkruntime.PodCycle{State: m.state, Pod: bind.WithNodeName(m.Pod(), r.SuggestedHost),
		Node: r.SuggestedHost}
	if f := s.binder.Reserve(ctx, m.profile, c); f != nil {
		if !f.Rejected() {
			return f.Status.AsError()
		}
		m.failure = failureOf(f)
		return nil
	}
	m.podCycle, m.nextNode, m.lead = c, r.RunnerUp, r.Lead
	return nil
}

func (g *podGroupAttempt) countPlaced() (placed int) {
	for _, m := range g.members {
		if m.placed() {
			placed++
		}
	}
	return placed
}

// bindPodGroup lets the placed members go on their way; those beyond the minimum that fit nowhere
// wait on.
func (s *Scheduler) bindPodGroup(ctx context.Context, g *podGroupAttempt) {
	for _, m := range g.members {
		if !m.placed() {
			m.fact.Message = m.failure.message
			s.Journal.Put(podRef(m.Pod()), m.fact)
			s.handleSchedulingFailure(ctx, m.schedulingAttempt, m.failure)
			continue
		}
		m.state.SetPodGroupCycle(nil)
		s.Journal.Put(podRef(m.Pod()), m.fact)
		if f := s.binder.RunPermit(ctx, m.profile, m.podCycle); f != nil {
			s.handleBindingCycleError(ctx, m.schedulingAttempt, m.podCycle, f)
			continue
		}
		s.startBindingCycle(ctx, m.schedulingAttempt, m.podCycle, journal.Bound{Node: m.podCycle.Node, Next: m.nextNode,
			Lead: m.lead})
	}
}

// releasePodGroup gives every node back, the last first. Promises made by preemption stand again.
func (s *Scheduler) releasePodGroup(ctx context.Context, g *podGroupAttempt) {
	for _, m := range slices.Backward(g.members) {
		if !m.placed() {
			continue
		}
		s.binder.Unreserve(ctx, m.profile, m.podCycle)
		if m.nominatedNode != "" {
			s.mu.Lock()
			s.nominator.AddNominatedPod(m.Info, m.nominatedNode)
			s.mu.Unlock()
		}
	}
}

// preemptForPodGroup asks what can be done for a group that has no room, and says so in its status.
// It gives the nodes that members may hope for.
func (s *Scheduler) preemptForPodGroup(ctx context.Context, g *podGroupAttempt) map[types.UID]string {
	if g.podGroup == nil || g.status.Code() != framework.Unschedulable {
		return nil
	}
	s.mu.Lock()
	snap := s.cache.UpdateSnapshot()
	s.mu.Unlock()
	s.currentSnapshot.Set(snap)
	pods := make([]*v1.Pod, len(g.members))
	for i, m := range g.members {
		pods[i] = m.Pod()
	}
	need := gangscheduling.MinCount(g.podGroup) - (g.progress.Scheduled - g.countPlaced())
	if need > len(pods) {
		return nil // nobody's leaving makes up for Pods that are not there
	}
	nominations, status := g.members[0].profile.PostFilterPodGroup(ctx,
		frameworkruntime.UnschedulablePodGroup{Object: g.podGroup, Pods: pods, MinCount: need})
	switch {
	case status.IsError():
		klog.FromContext(ctx).Error(status.AsError(), "PostFilter for a pod group failed")
	case !status.IsSuccess():
		g.status.AppendReason(status.Message())
	}
	return nominations
}

// requeuePodGroup puts all members back: those that fit nowhere with their own refusals, the others
// with the group's.
func (s *Scheduler) requeuePodGroup(ctx context.Context, g *podGroupAttempt, nominations map[types.UID]string) {
	for _, m := range g.members {
		switch {
		case m.attempted && !m.placed() && (m.failure.status.IsRejected() || g.status.IsError()):
		case g.status.IsError():
			m.failure = failure{status: g.status, message: g.status.Message()}
		default:
			text := g.status.Message()
			if m.placed() {
				text = gangscheduling.Unschedulable + ", " + text
			}
			m.failure = failure{status: framework.NewStatus(framework.Unschedulable, text), message: text,
				unschedulablePlugins: sets.New(gangscheduling.Name)}
		}
		m.failure.nominatedNode = new(nominations[m.Pod().UID])
		f := m.fact
		f.Profile, f.Attempt, f.Winner, f.RunnerUp, f.Scores, f.Message, f.Took = m.profile.Name, m.Attempts, "", "",
			nil, m.failure.message, journal.Took(time.Since(m.start))
		if m.placed() || !m.attempted {
			f.By = gangscheduling.Name
		}
		s.Journal.Put(podRef(m.Pod()), f)
		s.handleSchedulingFailure(ctx, m.schedulingAttempt, m.failure)
	}
}

// updatePodGroupStatus writes the outcome into the PodGroup's status.
func (s *Scheduler) updatePodGroupStatus(g *podGroupAttempt) {
	if g.podGroup == nil {
		return
	}
	c := metav1.Condition{Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: metav1.ConditionTrue,
		Reason: "Scheduled", ObservedGeneration: g.podGroup.Generation}
	switch {
	case g.status.IsSuccess():
	case g.status.IsRejected():
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, schedulingv1beta1.PodGroupReasonUnschedulable,
			g.status.Message()
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, schedulingv1beta1.PodGroupReasonSchedulerError,
			g.status.AsError().Error()
	}
	s.podGroups.statuses.Put(g.podGroup, c)
}
