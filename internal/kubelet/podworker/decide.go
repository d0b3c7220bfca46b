package podworker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	podvocab "github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// decide looks, learns facts, tells the status, and plans.
func (w *worker) decide(ctx context.Context, desired *UpdatePodOptions) podplan.Plan {
	now := time.Now()
	if !w.state.facts.UncertainSandbox.AbandonedAt.IsZero() {
		w.state.fresh = false
	}
	if err := w.observe(ctx); err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).V(1).Info("Cannot see the Pod in the runtime, trying again", "err", err)
		}
		return podplan.Plan{Wake: now.Add(time.Second)}
	}
	in := w.planInput(desired, now)
	w.state.exits.selfTerminated = false
	w.updateFacts(ctx, desired, &in)
	w.refreshVolumes(ctx, in)
	plan := podplan.Next(in)
	w.state.exits.lastHealth = in.Health
	w.state.waitingReasons = w.waitingReasons(in, plan)
	w.updateStatus(in, desired)
	if w.state.allocation.justCompleted {
		w.state.allocation.justCompleted = false
		w.pool.retryPendingResizes() // a Pod that has become smaller leaves room
	}
	w.reportFacts(in, plan)
	if plan.Done && !w.state.done {
		w.state.done = true
		w.reportDeadlineExceeded(in)
		if in.Remove {
			w.put(journal.Released{})
			if !desired.Gone && in.Pod.DeletionTimestamp != nil {
				w.pool.d.Statuses.DeletePod(desired.Pod)
			}
		}
	}
	w.state.done = plan.Done
	return plan
}

// maxJournaledObservations is how many looks at a Pod that starts are put into the journal: they
// are a share of its start, later ones delay nobody.
const maxJournaledObservations = 8

// observe reads the runtime's state unless the last look still holds.
func (w *worker) observe(ctx context.Context) error {
	if w.state.fresh {
		return nil
	}
	defer w.beginStep(w.stateFor(w.desired.Load(), nil), "asking the runtime for the Pod's state", stepTimeout)()
	startedAt := time.Now()
	seen, err := w.pool.d.Runtime.GetPodStatus(ctx, w.uid)
	if err != nil {
		return err
	}
	if s := w.state.reported.status; w.journaledObservations < maxJournaledObservations &&
		(s == nil || s.Phase == v1.PodPending) {
		w.journaledObservations++
		w.put(journal.Called{Service: "CRI", Method: "List", Took: journal.Took(time.Since(startedAt))})
	}
	w.state.observed, w.state.fresh = seen, true
	return nil
}

// planInput gathers everything a decision depends on.
func (w *worker) planInput(desired *UpdatePodOptions, now time.Time) podplan.In {
	pod := w.pod(desired)
	in := podplan.In{
		Pod: pod, Observed: podstatus.MergeKnown(w.markRestarting(w.state.observed), pod.Status), Facts: w.state.facts,
		End:    desired.Termination,
		Remove: desired.Termination != nil && (desired.Gone || pod.DeletionTimestamp != nil),
		Tries:  w.state.tries, Limits: w.pool.d.Limits, Now: now, Applied: w.state.allocation.allocated.Applied,
	}
	in.Health = w.syncProbes(in)
	return in
}

// updateFacts turns what was seen and asked for into facts.
func (w *worker) updateFacts(ctx context.Context, desired *UpdatePodOptions, in *podplan.In) {
	f := &w.state.facts
	if f.Accepted.IsZero() && f.Refused.IsZero() && in.End == nil {
		w.admit(ctx, desired, in)
	}
	in.Facts = *f
	_, doubtful := podplan.SandboxUncertain(*in)
	if !doubtful {
		f.UncertainSandbox = podplan.UncertainSandbox{}
	}
	w.resize(ctx, desired, in)
	w.reportResizeProgress(*in)
	if end := podplan.EffectiveTermination(*in); end != nil && f.StopRequested.IsZero() {
		f.StopRequested = in.Now
		w.state.exits.selfTerminated = end.Cause == podplan.Finished && !w.state.exits.lastContainerKilled
		w.put(journal.Killing{Cause: end.Cause, Grace: int64(end.Grace / time.Second)})
		w.reportDeadlineExceeded(*in)
	}
	if !f.StopRequested.IsZero() && f.ContainersStopped.IsZero() && !in.Observed.Alive() && !doubtful {
		f.ContainersStopped = in.Now
		w.reportDeadlineExceeded(*in)
		w.state.exits.deferPhase = endedByNode(*in) || w.state.exits.lastContainerKilled
		close(w.terminated)
		w.publish(in.Pod)
		w.pool.retryPendingResizes() // it leaves room
		w.pool.wakeUnadmitted()
	}
	in.Facts = *f
}

// reportDeadlineExceeded tells that a Pod ends for its deadline; upstream tells it at each step of
// the end.
func (w *worker) reportDeadlineExceeded(in podplan.In) {
	s := in.Pod.Status
	if (s.Phase == v1.PodSucceeded || s.Phase == v1.PodFailed) && s.Reason != podplan.DeadlineReason {
		return // it had ended before
	}
	if end := podplan.EffectiveTermination(in); end != nil && end.Reason == podplan.DeadlineReason &&
		in.Pod.DeletionTimestamp == nil {
		w.pool.d.Events.DeadlineExceeded(in.Pod, end.Reason, end.Message)
	}
}

// endedByNode tells whether a Pod whose work is done had sidecars that the kubelet stopped.
func endedByNode(in podplan.In) bool {
	end := podplan.EffectiveTermination(in)
	return end != nil && end.Cause == podplan.Finished && slices.ContainsFunc(podplan.Members(in.Pod),
		func(m podplan.Member) bool {
			return m.Kind == podplan.Sidecar && in.Observed.Latest(m.Name) != nil
		})
}

// admit admits the Pod, unless an older one holds its name. A Pod that was admitted before this
// kubelet began is not asked again.
func (w *worker) admit(ctx context.Context, desired *UpdatePodOptions, in *podplan.In) {
	if holder, isHeld := w.pool.claimName(w.name, w.uid, desired.Source); isHeld {
		w.reportWaiting("an older Pod of this name to leave the node",
			"it begins when nothing is left of the Pod with uid "+string(holder))
		return
	}
	before := in.Pod.Status.StartTime != nil || len(in.Observed.Sandboxes) > 0
	if !before && len(w.state.victims) == 0 {
		if refusal := w.checkAdmission(in.Pod); refusal != nil {
			w.state.facts.Refused, w.state.refusal = in.Now, refusal
			w.put(journal.Refused{Reason: string(refusal.Code), Message: refusal.Detail})
			w.pool.d.Events.Pod(in.Pod, v1.EventTypeWarning, string(refusal.Code), refusal.Detail)
			klog.FromContext(ctx).Info("Pod refused", "reason", refusal.Code, "detail", refusal.Detail)
			return
		}
	}
	if !w.victimsTerminated() {
		w.reportWaiting("Pods that make room for it to end", "their containers have their grace period")
		return
	}
	w.state.facts.Accepted = acceptedAt(*in)
	w.loadAllocation(ctx, desired.Pod, before)
	in.Pod, in.Applied = w.pod(desired), w.state.allocation.allocated.Applied
	accepted := journal.Accepted{Source: desired.Source}
	if !podvocab.IsStatic(desired.Pod) {
		accepted.Created = desired.Pod.CreationTimestamp.Time
	}
	w.put(accepted)
	w.pool.d.Meter.Admitted(in.Pod)
	w.publish(in.Pod)
}

// acceptedAt is since when the Pod is on the node: as its status tells, else as its oldest sandbox
// does, which a kubelet before this one made for a Pod whose status nobody keeps (a static one),
// else now.
func acceptedAt(in podplan.In) time.Time {
	if t := in.Pod.Status.StartTime; t != nil {
		return t.Time
	}
	at := in.Now
	for i := range in.Observed.Sandboxes {
		if sandboxDone := in.Observed.Sandboxes[i].Created; !sandboxDone.IsZero() && sandboxDone.Before(at) {
			at = sandboxDone
		}
	}
	return at
}

// checkAdmission asks admission, one Pod at a time, so that two do not take the same room.
func (w *worker) checkAdmission(pod *v1.Pod) *reason.Refusal {
	w.pool.admission.Lock()
	defer w.pool.admission.Unlock()
	victims, refusal := w.pool.d.Admit(pod, w.pool.otherPods(w.uid))
	for _, v := range victims {
		w.preempt(v)
	}
	if refusal == nil {
		w.mu.Lock()
		w.published.Stage = podplan.Preparing
		w.mu.Unlock()
	}
	return refusal
}

// publish makes the Pod and its stage visible to others.
func (w *worker) publish(pod *v1.Pod) {
	w.mu.Lock()
	w.published = View{Pod: pod, Source: w.desired.Load().Source, Stage: w.state.facts.Stage(),
		Observed: w.state.observed}
	if w.published.Stage == podplan.Waiting && len(w.state.victims) > 0 {
		w.published.Stage = podplan.Preparing // its room is taken
	}
	w.mu.Unlock()
}

// refreshVolumes brings volumes up to date whose content follows API objects, after one of these
// changed.
func (w *worker) refreshVolumes(ctx context.Context, in podplan.In) {
	if about := w.state.volumeContent.shownFor; about != nil && (!maps.Equal(about.Labels, in.Pod.Labels) ||
		!maps.Equal(about.Annotations, in.Pod.Annotations)) {
		w.state.volumeContent.stale = true // downward API
	}
	w.state.volumeContent.shownFor = in.Pod
	if !w.state.volumeContent.stale {
		return
	}
	w.state.volumeContent.stale = false
	for name, t := range w.state.tries { // what failed for a missing object may succeed now
		t.FailedAt = time.Time{}
		w.state.tries[name] = t
	}
	if in.Facts.Stage() != podplan.Active {
		return
	}
	if err := w.pool.d.Actions.Refresh(ctx, in.Pod); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Cannot refresh the Pod's volumes")
	}
}

// reportWaiting states what the Pod waits for, once.
func (w *worker) reportWaiting(what, next string) {
	key := "wait " + what
	if w.state.reportedFacts[key] {
		return
	}
	w.state.reportedFacts[key] = true
	w.put(journal.Waiting{For: what, Since: time.Now(), Next: next})
}

// refusalOf finds the refusal in an error, or makes one of it.
func refusalOf(err error, code reason.Code) *reason.Refusal {
	var r *reason.Refusal
	if errors.As(err, &r) {
		return r
	}
	return &reason.Refusal{Code: code, By: "kubelet", Detail: err.Error(), Err: err}
}
