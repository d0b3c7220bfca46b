package podworker

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/admit"
	"github.com/gantry-project/gantry/internal/kubelet/podactions"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// allocationState is what a worker knows of its Pod's sizes: what the node granted, what of it is
// in force, and what it makes of a wish for others.
type allocationState struct {
	allocated     podactions.AllocationRecord
	known         bool // granted holds: the Pod was admitted
	checkpointed  bool // the ledger has it
	resizing      bool // not all of it is in force
	justCompleted bool // all of it has just come into force: others may have more room
	failure       string
	pending       *podstatus.Resize // why the newest wish was not granted; nil when it was
	since         time.Time         // from when it is deferred; zero: it is not
}

// loadAllocation learns the sizes of a Pod that this kubelet takes in, or takes over from the
// kubelet before it.
func (w *worker) loadAllocation(ctx context.Context, p *v1.Pod, before bool) {
	z := &w.state.allocation
	z.known = true
	z.allocated = podactions.AllocationRecord{Allocated: pod.AllocationOf(p), Applied: podplan.Applied{},
		Generation: p.Generation}
	if before {
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodResizePending && c.Status == v1.ConditionTrue {
				z.pending = &podstatus.Resize{Reason: c.Reason, Message: c.Message, Generation: c.ObservedGeneration}
			}
		}
		g, ok, err := w.pool.d.Allocations.Load(w.uid)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Cannot read what the Pod was granted, going by its status")
		}
		z.checkpointed = ok
		if ok {
			z.allocated = g
		} else {
			z.allocated.Allocated = resourcesFromStatus(p)
			for name, r := range z.allocated.Allocated.Containers {
				z.allocated.Applied[name] = r
			}
		}
	}
	if _, has := z.allocated.Applied[podplan.PodResources]; !has {
		z.allocated.Applied[podplan.PodResources] = podplan.ResourcesOf(
			z.allocated.Applied.ApplyTo(z.allocated.Allocated.ApplyTo(p)), podplan.PodResources)
	}
}

// resourcesFromStatus is what a Pod's status says it was given, for containers it says that of;
// else what its spec says.
func resourcesFromStatus(p *v1.Pod) pod.Allocation {
	s := pod.AllocationOf(p)
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, st := range list {
			if have, ok := s.Containers[st.Name]; ok && st.Resources != nil && st.State.Running != nil {
				s.Containers[st.Name] = overlay(have, *st.Resources)
			}
		}
	}
	if r := p.Status.Resources; r != nil && s.Pod != nil && p.Status.Phase == v1.PodRunning {
		all := overlay(*s.Pod, *r)
		s.Pod = &all
	}
	return s
}

// overlay takes CPU and memory, which alone are resized, from what a status shows.
func overlay(spec, status v1.ResourceRequirements) v1.ResourceRequirements {
	out := *spec.DeepCopy()
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if q, ok := status.Requests[name]; ok && out.Requests != nil {
			out.Requests[name] = q
		}
		if q, ok := status.Limits[name]; ok && out.Limits != nil {
			out.Limits[name] = q
		}
	}
	return out
}

// resize asks for the sizes of the wish when they are not those that were granted, and makes a
// grant known.
func (w *worker) resize(ctx context.Context, desired *UpdatePodOptions, in *podplan.In) {
	z := &w.state.allocation
	if !z.known || in.End != nil || !in.Facts.StopRequested.IsZero() {
		w.resolved(desired.Pod, "terminated", in.Now)
		w.pool.removePendingResize(w.uid)
		return
	}
	if z.allocated.Allocated.Matches(desired.Pod) {
		z.pending = nil
		w.resolved(desired.Pod, "reverted", in.Now)
		w.pool.removePendingResize(w.uid)
		return
	}
	refusal, decided := w.pool.requestResize(w, admit.Resize{Pod: desired.Pod, Allocated: in.Pod,
		Since: w.resizePendingSince(in)})
	if !decided {
		return
	}
	if refusal != nil {
		w.deferResize(desired.Pod, refusal)
		return
	}
	g := podactions.AllocationRecord{Allocated: pod.AllocationOf(desired.Pod), Applied: w.actuated(*in),
		Generation: desired.Pod.Generation}
	if err := w.pool.d.Allocations.Save(w.uid, g); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot keep the Pod's new size, going on with the old one")
		w.deferResize(desired.Pod, &reason.Refusal{Code: reason.ResizeDeferred, By: "kubelet", Detail: err.Error(),
			Err: err})
		return
	}
	z.allocated, z.checkpointed, z.pending, z.failure = g, true, nil, ""
	w.resolved(desired.Pod, "accepted", in.Now)
	delete(w.state.tries, podplan.ResizeTry)
	w.pool.removePendingResize(w.uid)
	in.Pod, in.Applied = w.pod(desired), g.Applied
	z.resizing = true
	w.put(journal.Waiting{For: "its new size to be in force", Since: in.Now})
	w.pool.d.Events.Pod(desired.Pod, v1.EventTypeNormal, "ResizeStarted", resizeEventMessage("started", in.Pod,
		g.Generation, ""))
	w.publish(in.Pod)
}

// resolved counts the end of a deferred resize.
func (w *worker) resolved(p *v1.Pod, how string, now time.Time) {
	if z := &w.state.allocation; !z.since.IsZero() {
		w.pool.d.Meter.ResizeDeferred(p, how, now.Sub(z.since))
		z.since = time.Time{}
	}
}

// resizePendingSince is from when the Pod's wish for other sizes waits, which a kubelet before this
// one may have written down.
func (w *worker) resizePendingSince(in *podplan.In) time.Time {
	for _, c := range in.Pod.Status.Conditions {
		if c.Type == v1.PodResizePending {
			return c.LastTransitionTime.Time
		}
	}
	return in.Now
}

// actuated is what is applied, filled in with what was granted for containers that were started as
// granted.
func (w *worker) actuated(in podplan.In) podplan.Applied {
	out := podplan.Applied{}
	for name, r := range w.state.allocation.allocated.Allocated.Containers {
		out[name] = r
	}
	maps.Copy(out, w.state.allocation.allocated.Applied)
	if _, ok := out[podplan.PodResources]; !ok {
		out[podplan.PodResources] = podplan.ResourcesOf(in.Pod, podplan.PodResources)
	}
	return out
}

// deferResize notes that a wish for other sizes was not granted, and tells when that is new.
func (w *worker) deferResize(p *v1.Pod, refusal *reason.Refusal) {
	z := &w.state.allocation
	next := &podstatus.Resize{Reason: string(refusal.Code), Message: refusal.Detail, Generation: p.Generation}
	if z.pending != nil && *z.pending == *next {
		return
	}
	isNew := z.pending == nil || z.pending.Reason != next.Reason || z.pending.Message != next.Message ||
		z.pending.Generation != next.Generation
	z.pending = next
	if refusal.Code == reason.ResizeDeferred && z.since.IsZero() {
		z.since = time.Now()
	}
	if !isNew {
		return
	}
	if refusal.Code == reason.ResizeInfeasible {
		w.pool.d.Meter.ResizeInfeasible(refusal.Detail)
	}
	w.put(journal.Waiting{For: fmt.Sprintf("its new size (%s): %s", refusal.Code, refusal.Detail), Since: time.Now(),
		Next: nextResizeStep(refusal.Code), Fix: refusal.Fix})
	w.pool.d.Events.Pod(p, v1.EventTypeWarning, "Resize"+next.Reason, resizeEventMessage(next.Reason, p, p.Generation,
		next.Message))
}

func nextResizeStep(code reason.Code) string {
	if code == reason.ResizeInfeasible {
		return "nothing: it keeps its size"
	}
	return "granted when others leave room"
}

// recordApplied notes that something runs with the size it was granted.
func (w *worker) recordApplied(p *v1.Pod, names ...string) {
	z := &w.state.allocation
	if !z.known {
		return
	}
	for _, name := range names {
		z.allocated.Applied = z.allocated.Applied.With(name, podplan.ResourcesOf(p, name))
	}
	if !z.checkpointed {
		return
	}
	if err := w.pool.d.Allocations.Save(w.uid, z.allocated); err != nil {
		klog.ErrorS(err, "Cannot keep which size is in force; a restarted kubelet will put it in force again",
			"podUID", w.uid)
	}
}

// reportResizeProgress tells when a resize has come into force or has failed.
func (w *worker) reportResizeProgress(in podplan.In) {
	z := &w.state.allocation
	if !z.resizing {
		z.resizing = z.checkpointed && podplan.Resizing(in) // a kubelet before this one did not finish it
	}
	if !z.resizing {
		return
	}
	if t, failed := in.Tries[podplan.ResizeTry]; failed && withoutDigits(z.failure) != withoutDigits(t.Refusal.Detail) {
		z.failure = t.Refusal.Detail
		w.pool.d.Events.Pod(in.Pod, v1.EventTypeWarning, "ResizeError", resizeEventMessage("error", in.Pod,
			z.allocated.Generation, z.failure))
	}
	if in.End == nil && in.Facts.StopRequested.IsZero() && !podplan.Resizing(in) {
		z.resizing, z.failure = false, ""
		w.pool.d.Events.Pod(in.Pod, v1.EventTypeNormal, "ResizeCompleted", resizeEventMessage("completed", in.Pod,
			z.allocated.Generation, ""))
		z.justCompleted = true
	}
}

// withoutDigits is a text without its numbers: what is in use changes from try to try and is no
// news.
func withoutDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s)
}

// resizeStatus is what the status says about sizes.
func (z *allocationState) resizeStatus(in podplan.In) podstatus.ResizeStatus {
	s := podstatus.ResizeStatus{Applied: in.Applied, Pending: z.pending}
	if z.resizing {
		s.Running = &podstatus.Resize{Generation: z.allocated.Generation, Message: z.failure}
		if z.failure != "" {
			s.Running.Reason = v1.PodReasonError
		}
	}
	return s
}

// resizeEventMessage is the message of a resize's event in upstream's form.
func resizeEventMessage(what string, p *v1.Pod, generation int64, failure string) string {
	type one struct {
		Name      string                  `json:"name"`
		Resources v1.ResourceRequirements `json:"resources,omitempty"`
	}
	list := func(cs []v1.Container) (out []one) {
		for i := range cs {
			out = append(out, one{cs[i].Name, cs[i].Resources})
		}
		return out
	}
	raw, err := json.Marshal(struct {
		InitContainers []one  `json:"initContainers,omitempty"`
		Containers     []one  `json:"containers,omitempty"`
		Generation     int64  `json:"generation"`
		Error          string `json:"error,omitempty"`
	}{list(p.Spec.InitContainers), list(p.Spec.Containers), generation, failure})
	if err != nil {
		return "Pod resize " + what
	}
	return "Pod resize " + what + ": " + string(raw)
}
