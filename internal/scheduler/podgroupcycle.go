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
	"github.com/gantry-project/gantry/internal/scheduler/metrics"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/gangscheduling"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
)

// podGroupQueue is the queue, the cache and the nominator as the cycle of a PodGroup sees them.
type podGroupQueue interface {
	schedulingQueue
	snapshotSource
	popPodGroup(e *queue.Entry) poppedPodGroup
	nominatedNodeName(uid types.UID) string
	addNominatedPod(p framework.PodInfo, node string)
}

// podGroupStatuses takes in what is to be written into a PodGroup's status, and does not wait.
type podGroupStatuses interface {
	Put(g *schedulingv1beta1.PodGroup, c metav1.Condition)
}

// podGroupCycle schedules the Pods of a PodGroup together. The scheduling goroutine runs it.
type podGroupCycle struct {
	profiles  map[string]*frameworkruntime.Profile
	queue     podGroupQueue
	current   *frameworkruntime.CurrentSnapshot
	algorithm podScheduler
	binder    *bind.Binder
	bindings  bindings
	failures  failureHandler
	facts     *attemptFacts
	statuses  podGroupStatuses
	metrics   *metrics.PodGroups
}

// takes tells whether a Pod is scheduled with a PodGroup. A nil cycle takes none.
func (s *podGroupCycle) takes(e *queue.Entry) bool {
	return s != nil && gangscheduling.PodGroupNameOf(e.Pod()) != ""
}

// podGroupAttempt is one attempt to schedule the Pods of a PodGroup: all that wait for a node, in
// one cycle.
type podGroupAttempt struct {
	podGroup *schedulingv1beta1.PodGroup // nil: there is none of that name
	state    *frameworkruntime.PodGroupCycleState
	members  []*memberAttempt
	progress gangscheduling.Progress
	status   *framework.Status // nil: it can go
}

// memberStage is how far a member of a PodGroup has come in the cycle.
type memberStage int

const (
	notAttempted memberStage = iota
	withoutNode              // no node fits, or the attempt broke: failure says why
	withNode                 // assumed and reserved: podCycle has the node
)

// memberAttempt is the attempt to schedule one member.
type memberAttempt struct {
	*schedulingAttempt
	stage         memberStage
	podCycle      frameworkruntime.PodCycle
	nominatedNode string // node it was nominated to before it was assumed
	nextNode      string // runner-up
	lead          int64  // score by which the runner-up was beaten
	failure       failure
}

// schedulePodGroup runs one cycle for the group of a Pod that was popped. Each member is scheduled
// with those before it assumed on their nodes. When enough have a node, all of these are bound;
// otherwise every node is given back, preemption is tried and all members return to the queue.
func (s *podGroupCycle) schedulePodGroup(ctx context.Context, e *queue.Entry) {
	began := time.Now()
	g := s.popPodGroup(e)
	if len(g.members) == 0 {
		return
	}
	logger := klog.FromContext(ctx).WithValues("podGroup",
		klog.KRef(e.Pod().Namespace, gangscheduling.PodGroupNameOf(e.Pod())))
	logger.V(3).Info("Attempting to schedule pod group", "pods", len(g.members))
	if g.status == nil {
		s.placePodGroup(ctx, g)
		s.metrics.ObserveAlgorithm(began)
	}
	defer func() { s.metrics.Observe(g.members[0].profile.Name, g.status, began) }()
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

// popPodGroup takes the members off the queue, in the order of the active queue. A status says why
// they cannot be tried together.
func (s *podGroupCycle) popPodGroup(e *queue.Entry) *podGroupAttempt {
	found := s.queue.popPodGroup(e)
	g := &podGroupAttempt{state: frameworkruntime.NewPodGroupCycleState(), podGroup: found.podGroup}
	if g.podGroup == nil {
		g.status = framework.NewStatus(framework.UnschedulableAndUnresolvable,
			fmt.Sprintf(gangscheduling.NoPodGroup, gangscheduling.PodGroupNameOf(e.Pod())))
	}
	slices.SortFunc(found.entries, func(a, b *queue.Entry) int {
		return cmp.Or(cmp.Compare(pod.Priority(b.Pod()), pod.Priority(a.Pod())),
			a.InitialAttemptTimestamp.Compare(*b.InitialAttemptTimestamp), a.AddedAt.Compare(b.AddedAt),
			cmp.Compare(a.Pod().Name, b.Pod().Name))
	})
	for _, e := range found.entries {
		a := newAttempt(e, s.profiles[e.Pod().Spec.SchedulerName])
		if skipPodSchedule(s.queue, s.facts, a) {
			s.queue.done(e.Pod())
			continue
		}
		if one := found.entries[0].Pod().Spec.SchedulerName; e.Pod().Spec.SchedulerName != one {
			g.status = framework.AsStatus(
				fmt.Errorf("all pods in a single pod group should have the same .spec.schedulerName set, got: %q and "+
					"%q", e.Pod().Spec.SchedulerName, one))
		}
		g.members = append(g.members, &memberAttempt{schedulingAttempt: a})
	}
	g.progress.Remaining, g.progress.Scheduled = len(g.members), found.scheduled
	return g
}

// placePodGroup schedules the members in order until it is known that the group cannot be complete,
// or all have been attempted.
func (s *podGroupCycle) placePodGroup(ctx context.Context, g *podGroupAttempt) {
	least := gangscheduling.MinCount(g.podGroup)
	if g.status = gangscheduling.Feasible(least, g.progress); g.status.IsRejected() {
		return
	}
	for _, m := range g.members {
		m.start = time.Now()
		m.stage = withoutNode
		if err := s.placeMember(ctx, g, m); err != nil {
			m.failure = failure{status: framework.AsStatus(err), message: err.Error()}
			g.status = framework.AsStatus(fmt.Errorf("failed to schedule other pod from a pod group: %w", err))
			return
		}
		g.progress.Remaining--
		if m.stage == withNode {
			g.progress.Scheduled++
		}
		if g.status = gangscheduling.Feasible(least, g.progress); g.status.IsRejected() {
			return
		}
	}
	if g.status.IsWait() { // cannot be: with no member remaining the minimum is reached or out of reach
		g.status = framework.NewStatus(framework.Unschedulable, g.status.Reasons()...)
	}
}

// placeMember schedules one member and assumes and reserves its node. The error is one that no
// other node or time would mend now.
func (s *podGroupCycle) placeMember(ctx context.Context, g *podGroupAttempt, m *memberAttempt) error {
	m.state.SetPodGroupCycle(g.state)
	if err := s.algorithm.schedulePod(ctx, m.schedulingAttempt); err != nil {
		return err
	}
	logResult(klog.FromContext(ctx).WithValues("pod", klog.KObj(m.pod())), m.schedulingAttempt)
	r := m.result
	if !r.Scheduled() {
		m.result = nil // the next member's cycle uses its buffers
		m.failure = failure{status: r.Status, message: r.Message(), unschedulablePlugins: r.UnschedulablePlugins,
			pendingPlugins: r.PendingPlugins}
		if r.Failed() {
			return r.Status.AsError()
		}
		return nil
	}
	m.nominatedNode = s.queue.nominatedNodeName(m.pod().UID)
	c := podCycle(m.schedulingAttempt)
	m.result = nil
	if f := s.binder.Reserve(ctx, m.profile, c); f != nil {
		if !f.Rejected() {
			return f.Status.AsError()
		}
		m.failure = failureOf(f)
		return nil
	}
	m.stage, m.podCycle, m.nextNode, m.lead = withNode, c, r.RunnerUp, r.Lead
	return nil
}

func (g *podGroupAttempt) countPlaced() (placed int) {
	for _, m := range g.members {
		if m.stage == withNode {
			placed++
		}
	}
	return placed
}

// bindPodGroup starts the binding cycles of the members that have a node; those beyond the minimum
// that fit nowhere wait on.
func (s *podGroupCycle) bindPodGroup(ctx context.Context, g *podGroupAttempt) {
	for _, m := range g.members {
		if m.stage != withNode {
			m.fact.Message = m.failure.message
			m.failure.fact = m.fact
			s.failures.handleSchedulingFailure(ctx, m.schedulingAttempt, m.failure)
			continue
		}
		m.state.SetPodGroupCycle(nil)
		s.facts.placed(m.schedulingAttempt)
		if f := s.binder.RunPermit(ctx, m.profile, m.podCycle); f != nil {
			s.failures.handleBindingCycleError(ctx, m.schedulingAttempt, m.podCycle, f)
			continue
		}
		s.bindings.start(ctx, m.schedulingAttempt, m.podCycle, journal.Bound{Node: m.podCycle.Node, Next: m.nextNode,
			Lead: m.lead})
	}
}

// releasePodGroup gives every node back, the last first. Members that preemption had nominated are
// nominated again.
func (s *podGroupCycle) releasePodGroup(ctx context.Context, g *podGroupAttempt) {
	for _, m := range slices.Backward(g.members) {
		if m.stage != withNode {
			continue
		}
		s.binder.Unreserve(ctx, m.profile, m.podCycle)
		if m.nominatedNode != "" {
			s.queue.addNominatedPod(m.entry.Info, m.nominatedNode)
		}
	}
}

// preemptForPodGroup runs PostFilter for a group that has no room and adds what it says to the
// group's status. It gives the nodes that members are to be nominated to.
func (s *podGroupCycle) preemptForPodGroup(ctx context.Context, g *podGroupAttempt) map[types.UID]string {
	if g.podGroup == nil || g.status.Code() != framework.Unschedulable {
		return nil
	}
	snap, _ := s.queue.snapshot()
	s.current.Set(snap)
	pods := make([]*v1.Pod, len(g.members))
	for i, m := range g.members {
		pods[i] = m.pod()
	}
	need := gangscheduling.MinCount(g.podGroup) - (g.progress.Scheduled - g.countPlaced())
	if need > len(pods) {
		return nil // no eviction makes up for Pods that are not there
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

// requeuePodGroup puts all members back: those that fit nowhere with their own failures, the others
// with the group's.
func (s *podGroupCycle) requeuePodGroup(ctx context.Context, g *podGroupAttempt, nominations map[types.UID]string) {
	for _, m := range g.members {
		switch {
		case m.stage == withoutNode && (m.failure.status.IsRejected() || g.status.IsError()):
		case g.status.IsError():
			m.failure = failure{status: g.status, message: g.status.Message()}
		default:
			text := g.status.Message()
			if m.stage == withNode {
				text = gangscheduling.Unschedulable + ", " + text
			}
			m.failure = failure{status: framework.NewStatus(framework.Unschedulable, text), message: text,
				unschedulablePlugins: sets.New(gangscheduling.Name)}
		}
		m.failure.nominatedNode = new(nominations[m.pod().UID])
		f := m.fact
		f.Profile, f.Attempt, f.Winner, f.RunnerUp, f.Scores, f.Message, f.Took = m.profile.Name, m.entry.Attempts, "",
			"", nil, m.failure.message, journal.Took(time.Since(m.start))
		if m.stage != withoutNode {
			f.By = gangscheduling.Name
		}
		m.failure.fact = f
		s.failures.handleSchedulingFailure(ctx, m.schedulingAttempt, m.failure)
	}
}

// updatePodGroupStatus writes the outcome into the PodGroup's status.
func (s *podGroupCycle) updatePodGroupStatus(g *podGroupAttempt) {
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
	s.statuses.Put(g.podGroup, c)
}
