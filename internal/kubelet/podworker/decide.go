package podworker

import (
	"context"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/kubelet/podview"
	"github.com/gantry-project/gantry/internal/kubelet/podworker/planrunner"
)

// decide looks at the Pod, learns facts, shows its status, and plans.
func (w *worker) decide(ctx context.Context, desired *UpdatePodOptions) podplan.Plan {
	now := time.Now()
	if !w.facts.UncertainSandbox.AbandonedAt.IsZero() {
		w.runtime.fresh = false
	}
	if err := w.observe(ctx); err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).V(1).Info("Cannot see the Pod in the runtime, trying again", "err", err)
		}
		return podplan.Plan{Wake: now.Add(time.Second)}
	}
	w.tries.StillListed(w.lastPlan.done, w.runtime.seen, now)
	w.lastPlan.done = nil
	in := w.planInput(desired, now)
	for name, h := range in.Health {
		if was, known := w.health[name]; known && was != h {
			w.tries.HealthChanged(name)
		}
	}
	w.health = in.Health
	leavesRoom := w.updateFacts(ctx, desired, &in)
	w.refreshVolumes(ctx, in)
	plan := podplan.Next(in)
	w.step(ctx, desired, in.Pod, podview.Decided{Look: w.look(desired, in), Plan: plan})
	if leavesRoom {
		w.pool.allocations.RetryPendingResizes()
	}
	if plan.Done && !w.done {
		w.done = true
		w.emitDeadlineExceeded(in)
		if in.Remove {
			w.emit(ctx, in.Pod, journal.Released{})
			if !desired.Gone && in.Pod.DeletionTimestamp != nil {
				w.pool.d.Statuses.DeletePod(desired.Pod)
			}
		}
	}
	w.done = plan.Done
	return plan
}

// look is what a status of in depends on.
func (w *worker) look(desired *UpdatePodOptions, in podplan.In) podview.Look {
	l := podview.Look{In: in, Refusal: w.admission.refusal, RunningHooks: w.lastPlan.runningHooks,
		Node: w.pool.d.Node(), Resizes: w.allocation.Status(in)}
	if r := w.pool.d.Resources; r != nil {
		l.AllocatedResources = r.ResourcesStatus(in.Pod)
	}
	if of := w.pool.d.VolumeHealth; of != nil {
		l.VolumeHealth = of(w.uid)
	}
	if can := w.pool.d.RecursiveReadOnly; can != nil {
		l.RecursiveReadOnly = can(in.Pod)
	}
	if desired.hasAPIStatus() {
		l.API = &desired.Pod.Status
	}
	return l
}

// step takes what is shown of the Pod p one step further, makes it visible, and tells what is new.
func (w *worker) step(ctx context.Context, desired *UpdatePodOptions, p *v1.Pod, s podview.Step) {
	var facts []podview.Fact
	if w.view, facts = podview.Next(w.view, s); w.view.Status() != nil {
		shown := *p
		shown.Status = *w.view.Status()
		p = &shown
	}
	w.publish(p)
	w.emitAll(ctx, desired, p, facts)
}

// maxJournaledObservations is how many looks at a Pod that starts are put into the journal: they
// are a share of its start, later ones delay nobody.
const maxJournaledObservations = 8

// observe reads the runtime's state unless the last look still holds.
func (w *worker) observe(ctx context.Context) error {
	if w.runtime.fresh {
		return nil
	}
	defer w.beginStep(w.stateFor(w.mailbox.Value(), nil), "asking the runtime for the Pod's state",
		planrunner.StepTimeout)()
	startedAt := time.Now()
	seen, err := w.pool.d.Runtime.GetPodStatus(ctx, w.uid)
	if err != nil {
		return err
	}
	if s := w.view.Status(); w.runtime.journaled < maxJournaledObservations && (s == nil || s.Phase == v1.PodPending) {
		w.runtime.journaled++
		w.emit(ctx, nil, journal.Called{Service: "CRI", Method: "List", Took: journal.Took(time.Since(startedAt))})
	}
	w.runtime.seen, w.runtime.fresh = seen, true
	return nil
}

// planInput gathers everything a decision depends on.
func (w *worker) planInput(desired *UpdatePodOptions, now time.Time) podplan.In {
	pod := w.pod(desired)
	in := podplan.In{
		Pod: pod, Observed: podstatus.MergeKnown(w.view.MarkRestarting(w.runtime.seen), pod.Status), Facts: w.facts,
		End:    desired.Termination,
		Remove: desired.Termination != nil && (desired.Gone || pod.DeletionTimestamp != nil),
		Tries:  w.tries, Limits: w.pool.d.Limits, Now: now, Applied: w.allocation.Applied(),
		HoldsClaims: w.pool.d.Resources != nil && w.pool.d.Resources.HoldsClaims(w.uid),
	}
	in.Health = w.syncProbes(in)
	return in
}

// updateFacts turns what was seen and asked for into facts, of w and of in. True: the Pod has come
// to ask for less, which leaves room for others once its status is shown.
func (w *worker) updateFacts(ctx context.Context, desired *UpdatePodOptions, in *podplan.In) (leavesRoom bool) {
	f := &w.facts
	if f.Accepted.IsZero() && f.Refused.IsZero() && in.End == nil {
		w.admit(ctx, desired, in)
	}
	in.Facts = *f
	_, uncertain := podplan.SandboxUncertain(*in)
	if !uncertain {
		f.UncertainSandbox = podplan.UncertainSandbox{}
	}
	if w.allocation.Sync(ctx, desired.Pod, *in) {
		delete(w.tries, podplan.ResizeTry)
		in.Pod, in.Applied = w.pod(desired), w.allocation.Applied()
		w.publish(in.Pod)
	}
	leavesRoom = w.allocation.Progress(*in)
	if end := podplan.EffectiveTermination(*in); end != nil && f.StopRequested.IsZero() {
		f.StopRequested = in.Now
		w.emit(ctx, in.Pod, journal.Killing{Cause: end.Cause, Grace: int64(end.Grace / time.Second)})
		w.emitDeadlineExceeded(*in)
	}
	if !f.StopRequested.IsZero() && f.ContainersStopped.IsZero() && !in.Observed.Alive() && !uncertain &&
		!in.HoldsClaims {
		f.ContainersStopped = in.Now
		w.emitDeadlineExceeded(*in)
		close(w.published.terminated)
		w.publish(in.Pod)
		w.pool.allocations.RetryPendingResizes() // it leaves room
		w.pool.wakeUnadmitted()
	}
	in.Facts = *f
	return leavesRoom
}

// publish makes the Pod and its stage visible to others.
func (w *worker) publish(pod *v1.Pod) {
	v := View{Pod: pod, Source: w.mailbox.Value().Source, Stage: w.facts.Stage(), Observed: w.runtime.seen,
		Released: !w.facts.Released.IsZero()}
	if v.Stage == podplan.Waiting && len(w.admission.victims) > 0 {
		v.Stage = podplan.Preparing // its room is taken
	}
	w.published.change(func(old *View) { *old = v })
}

// refreshVolumes brings volumes up to date whose content follows API objects, after one of these
// changed.
func (w *worker) refreshVolumes(ctx context.Context, in podplan.In) {
	if about := w.volumes.shownFor; about != nil && (!maps.Equal(about.Labels, in.Pod.Labels) ||
		!maps.Equal(about.Annotations, in.Pod.Annotations)) {
		w.volumes.stale = true // downward API
	}
	if w.volumes.shownFor == nil {
		w.volumes.stale = true // of a Pod that an earlier kubelet started, nothing is known
	}
	w.volumes.shownFor = in.Pod
	if w.volumes.stale {
		w.volumes.stale, w.volumes.refresh = false, true
		w.tries.RetryAll() // what failed for a missing object may succeed now
	}
	if !w.volumes.refresh || in.Facts.Stage() != podplan.Active {
		return
	}
	w.volumes.refresh = false
	if err := w.pool.d.Actions.Refresh(ctx, in.Pod); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Cannot refresh the Pod's volumes")
	}
}
