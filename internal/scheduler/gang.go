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
	"github.com/gantry-project/gantry/internal/scheduler/glue"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/gangscheduling"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
)

// ensemble is one try to place the Pods of a PodGroup: all that wait for a node, in one cycle.
type ensemble struct {
	object   *schedulingv1beta1.PodGroup
	notes    *glue.GroupState
	members  []*player
	progress gangscheduling.Progress
	status   *framework.Status // nil: it can go
}

// player is what became of one of them.
type player struct {
	*attempt
	cycle    glue.Cycle // set when it has a node in thought
	promised string     // node it was nominated to before
	next     string     // runner-up
	lead     int64
	out      outcome // why it has none
	judged   bool
}

func (m *player) placed() bool { return m.cycle.Node != "" }

// scheduleGang runs one cycle for the group of a Pod that came off the queue: every member is judged in a world where those before it have their nodes. When enough
// have one, all of these are bound; otherwise none is.
func (s *Scheduler) scheduleGang(ctx context.Context, e *queue.Entry) {
	s.flush() // a group may take long
	began := time.Now()
	g := s.assemble(ctx, e)
	if len(g.members) == 0 {
		return
	}
	logger := klog.FromContext(ctx).WithValues("podGroup", klog.KRef(e.Pod().Namespace, gangscheduling.Of(e.Pod())))
	logger.V(3).Info("Attempting to schedule pod group", "pods", len(g.members))
	if g.status == nil {
		s.placeGang(ctx, g)
		s.meter.group.judged.Observe(time.Since(began).Seconds())
	}
	defer func() { s.meter.gang(g, began) }()
	if g.status.IsSuccess() {
		s.bindGang(ctx, g)
		logger.V(2).Info("Successfully scheduled a pod group", "scheduledPods", g.progress.Scheduled, "unschedulablePods", len(g.members)-g.count())
	} else {
		s.releaseGang(ctx, g)
		hopes := s.helpGang(ctx, g)
		s.returnGang(ctx, g, hopes)
		logger.V(2).Info("Unable to schedule a pod group", "unschedulablePods", len(g.members), "err", g.status.Message())
	}
	s.sayOfGang(g)
}

// assemble takes the members off the queue. A status says why they cannot be tried together.
func (s *Scheduler) assemble(ctx context.Context, e *queue.Entry) *ensemble {
	namespace, name := e.Pod().Namespace, gangscheduling.Of(e.Pod())
	g := &ensemble{notes: glue.NewGroupState()}
	entries := []*queue.Entry{e}
	s.mu.Lock()
	state, err := s.gangs.book.PodGroupStates().Get(namespace, name)
	if err == nil {
		now := time.Now()
		for _, p := range state.UnscheduledPods() {
			if other := s.queue.Take(p.UID, now); other != nil {
				entries = append(entries, other)
			}
		}
	}
	if g.object, err = s.gangs.book.PodGroups().Get(namespace, name); err != nil {
		g.status = framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf(gangscheduling.NoGroup, name))
	}
	s.mu.Unlock()
	slices.SortFunc(entries, func(a, b *queue.Entry) int {
		return cmp.Or(cmp.Compare(pod.Priority(b.Pod()), pod.Priority(a.Pod())), a.First.Compare(*b.First), a.Arrived.Compare(b.Arrived), cmp.Compare(a.Pod().Name, b.Pod().Name))
	})
	for _, e := range entries {
		a := &attempt{Entry: e, profile: s.profiles[e.Pod().Spec.SchedulerName], state: glue.NewState(), began: time.Now(), points: map[string]journal.Took{}}
		if s.skips(a) {
			s.decided(e.Pod())
			continue
		}
		if one := entries[0].Pod().Spec.SchedulerName; e.Pod().Spec.SchedulerName != one {
			g.status = framework.AsStatus(fmt.Errorf("all pods in a single pod group should have the same .spec.schedulerName set, got: %q and %q", e.Pod().Spec.SchedulerName, one))
		}
		g.members = append(g.members, &player{attempt: a})
	}
	g.progress.Remaining = len(g.members)
	if state != nil {
		g.progress.Scheduled = state.ScheduledPodsCount()
	}
	return g
}

// placeGang judges the members in order until it is known that the group cannot be complete, or all have been judged.
func (s *Scheduler) placeGang(ctx context.Context, g *ensemble) {
	least := gangscheduling.Least(g.object)
	if g.status = gangscheduling.Feasible(least, g.progress); g.status.IsRejected() {
		return
	}
	for _, m := range g.members {
		m.began = time.Now()
		m.judged = true
		if err := s.placeMember(ctx, g, m); err != nil {
			m.out = outcome{status: framework.AsStatus(err), message: err.Error()}
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

// placeMember judges one Pod and holds the node it would get. The error is one that no other node or time would mend now.
func (s *Scheduler) placeMember(ctx context.Context, g *ensemble, m *player) error {
	m.state.Measured = s.measured()
	m.state.Within(g.notes)
	if err := s.judged(ctx, m.attempt); err != nil {
		return err
	}
	r := m.ruling
	m.ruling = nil // its memory is the next member's
	s.report(klog.FromContext(ctx).WithValues("pod", klog.KObj(m.Pod())), m.attempt)
	if !r.Fits() {
		m.out = outcome{status: r.End, message: r.Message(), rejectors: r.Rejectors, pending: r.Pending}
		if r.Failed() {
			return r.End.AsError()
		}
		return nil
	}
	s.startsAt += r.Visited
	s.mu.Lock()
	m.promised = s.nominated.Of(m.Pod().UID)
	s.mu.Unlock()
	c := glue.Cycle{State: m.state, Pod: bind.On(m.Pod(), r.Winner), Node: r.Winner}
	if f := s.binder.Hold(ctx, m.profile, c); f != nil {
		if !f.Rejected() {
			return f.Status.AsError()
		}
		m.out = rejection(f)
		return nil
	}
	m.cycle, m.next, m.lead = c, r.RunnerUp, r.Lead
	return nil
}

func (g *ensemble) count() (placed int) {
	for _, m := range g.members {
		if m.placed() {
			placed++
		}
	}
	return placed
}

// bindGang lets the placed members go on their way; those beyond the minimum that fit nowhere wait on.
func (s *Scheduler) bindGang(ctx context.Context, g *ensemble) {
	for _, m := range g.members {
		if !m.placed() {
			m.fact.Message = m.out.message
			s.Journal.Put(ref(m.Pod()), m.fact)
			s.failed(ctx, m.attempt, m.out)
			continue
		}
		m.state.Within(nil)
		s.Journal.Put(ref(m.Pod()), m.fact)
		if f := s.binder.Permit(ctx, m.profile, m.cycle); f != nil {
			s.unbound(ctx, m.attempt, m.cycle, f)
			continue
		}
		s.commit(ctx, m.attempt, m.cycle, journal.Bound{Node: m.cycle.Node, Next: m.next, Lead: m.lead})
	}
}

// releaseGang gives every node back, the last first. Promises made by preemption stand again.
func (s *Scheduler) releaseGang(ctx context.Context, g *ensemble) {
	for _, m := range slices.Backward(g.members) {
		if !m.placed() {
			continue
		}
		s.binder.Release(ctx, m.profile, m.cycle)
		if m.promised != "" {
			s.mu.Lock()
			s.nominated.Set(m.Info, m.promised)
			s.mu.Unlock()
		}
	}
}

// helpGang asks what can be done for a group that has no room, and says so in its status. It gives the nodes that members may hope for.
func (s *Scheduler) helpGang(ctx context.Context, g *ensemble) map[types.UID]string {
	if g.object == nil || g.status.Code() != framework.Unschedulable {
		return nil
	}
	s.mu.Lock()
	world := s.world.Freeze()
	s.mu.Unlock()
	s.current.Set(world)
	pods := make([]*v1.Pod, len(g.members))
	for i, m := range g.members {
		pods[i] = m.Pod()
	}
	need := gangscheduling.Least(g.object) - (g.progress.Scheduled - g.count())
	if need > len(pods) {
		return nil // nobody's leaving makes up for Pods that are not there
	}
	hopes, status := g.members[0].profile.PostFilterGang(ctx, glue.Gang{Object: g.object, Pods: pods, Need: need})
	switch {
	case status.IsError():
		klog.FromContext(ctx).Error(status.AsError(), "PostFilter for a pod group failed")
	case !status.IsSuccess():
		g.status.AppendReason(status.Message())
	}
	return hopes
}

// returnGang puts all members back: those that fit nowhere with their own refusals, the others with the group's.
func (s *Scheduler) returnGang(ctx context.Context, g *ensemble, hopes map[types.UID]string) {
	for _, m := range g.members {
		switch {
		case m.judged && !m.placed() && (m.out.status.IsRejected() || g.status.IsError()):
		case g.status.IsError():
			m.out = outcome{status: g.status, message: g.status.Message()}
		default:
			text := g.status.Message()
			if m.placed() {
				text = gangscheduling.Unschedulable + ", " + text
			}
			m.out = outcome{status: framework.NewStatus(framework.Unschedulable, text), message: text, rejectors: sets.New(gangscheduling.Name)}
		}
		m.out.nominate = new(hopes[m.Pod().UID])
		f := m.fact
		f.Profile, f.Attempt, f.Winner, f.RunnerUp, f.Scores, f.Message, f.Took = m.profile.Name, m.Attempts, "", "", nil, m.out.message, journal.Took(time.Since(m.began))
		if m.placed() || !m.judged {
			f.By = gangscheduling.Name
		}
		s.Journal.Put(ref(m.Pod()), f)
		s.failed(ctx, m.attempt, m.out)
	}
}

// sayOfGang writes the outcome into the PodGroup's status.
func (s *Scheduler) sayOfGang(g *ensemble) {
	if g.object == nil {
		return
	}
	c := metav1.Condition{Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: metav1.ConditionTrue, Reason: "Scheduled", ObservedGeneration: g.object.Generation}
	switch {
	case g.status.IsSuccess():
	case g.status.IsRejected():
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, schedulingv1beta1.PodGroupReasonUnschedulable, g.status.Message()
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, schedulingv1beta1.PodGroupReasonSchedulerError, g.status.AsError().Error()
	}
	s.gangs.statuses.Put(g.object, c)
}
