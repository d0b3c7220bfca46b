package podworker

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/admit"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podview"
	"github.com/gantry-project/gantry/internal/kubelet/podworker/planrunner"
	podvocab "github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// admission is how the Pod was let in, or not.
type admission struct {
	refusal *reason.Refusal   // nil: let in, or not decided yet
	victims []<-chan struct{} // closed when the Pods that had to go for this one have ended
}

// admit admits the Pod, unless an older one holds its name. A Pod that was admitted before this
// kubelet began is not decided again.
func (w *worker) admit(ctx context.Context, desired *UpdatePodOptions, in *podplan.In) {
	if holder, isHeld := w.pool.claimName(w.name(), w.uid, desired.Source); isHeld {
		w.waitFor(ctx, desired, in.Pod, podview.Waits{For: "an older Pod of this name to leave the node",
			Next: "it begins when nothing is left of the Pod with uid " + string(holder)})
		return
	}
	before := in.Pod.Status.StartTime != nil || len(in.Observed.Sandboxes) > 0
	if !before && len(w.admission.victims) == 0 {
		reserve := func() { w.published.change(func(v *View) { v.Stage = podplan.Preparing }) }
		refusal := w.pool.allocations.Admit(in.Pod, w.preempt, reserve)
		if refusal == nil {
			var ended bool
			if refusal, ended = w.allocateDevices(ctx, in.Pod); ended {
				return
			}
		}
		if refusal != nil {
			w.facts.Refused, w.admission.refusal = in.Now, refusal
			w.emit(ctx, in.Pod, journal.Refused{Reason: string(refusal.Code), Message: refusal.Detail})
			return
		}
	}
	if !w.admission.victimsTerminated() {
		w.waitFor(ctx, desired, in.Pod, podview.Waits{For: "Pods that make room for it to end",
			Next: "their containers have their grace period"})
		return
	}
	w.facts.Accepted = acceptedAt(*in)
	w.allocation.Admitted(ctx, desired.Pod, before)
	in.Pod, in.Applied = w.pod(desired), w.allocation.Applied()
	accepted := journal.Accepted{Source: desired.Source}
	if !podvocab.IsStatic(desired.Pod) {
		accepted.Created = desired.Pod.CreationTimestamp.Time
	}
	w.emit(ctx, in.Pod, accepted)
	w.publish(in.Pod)
}

// allocateDevices has device plugins prepare what the Pod was given. Nobody waits for them but it.
// ended: the Pod's end was asked for meanwhile, or the worker's; nothing is decided.
func (w *worker) allocateDevices(ctx context.Context, p *v1.Pod) (refusal *reason.Refusal, ended bool) {
	if w.pool.d.Resources == nil {
		return nil, false
	}
	defer w.beginStep(SyncPod, "allocating devices", planrunner.StepTimeout)()
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	result := make(chan *reason.Refusal, 1)
	go func() { result <- w.pool.d.Resources.AllocateDevices(limited, p) }()
	for {
		select {
		case refusal := <-result:
			return refusal, refusal != nil && (ctx.Err() != nil || w.mailbox.Value().Termination != nil)
		case <-w.mailbox.Wakeups():
			w.takeWakeReasons(false)
			defer w.mailbox.Wake(0) // what came is looked at after this
			if w.mailbox.Value().Termination != nil {
				cancel()
			}
		}
	}
}

// waitFor tells what the Pod p that is not admitted waits for, once.
func (w *worker) waitFor(ctx context.Context, desired *UpdatePodOptions, p *v1.Pod, why podview.Waits) {
	var facts []podview.Fact
	why.Now = time.Now()
	w.view, facts = podview.Next(w.view, why)
	w.emitAll(ctx, desired, p, facts)
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
		if created := in.Observed.Sandboxes[i].Created; !created.IsZero() && created.Before(at) {
			at = created
		}
	}
	return at
}

// preempt ends a Pod so that this one, which is critical, has room.
func (w *worker) preempt(v *v1.Pod) {
	w.admission.victims = append(w.admission.victims, w.pool.TerminatedCh(v.UID))
	w.emitPreempts(v)
	w.pool.KillPod(v.UID, podplan.Termination{
		Cause: "preempted for " + w.name().String(), Reason: admit.Preempting, Message: admit.PreemptMessage,
		Victim:      admit.PreemptCondition,
		RequestedAt: time.Now(), Grace: podvocab.GracePeriod(&v.Spec),
	})
}

// victimsTerminated tells whether the Pods that had to go have ended.
func (a *admission) victimsTerminated() bool {
	for _, terminated := range a.victims {
		select {
		case <-terminated:
		default:
			return false
		}
	}
	return true
}

// wakeUnadmitted wakes the Pods that are not admitted yet: they may wait for what has just ended.
func (p *Pool) wakeUnadmitted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.workers {
		if w.published.get().Stage <= podplan.Preparing {
			w.mailbox.Wake(wakeRuntime)
		}
	}
}
