package allocation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/admit"
	"github.com/gantry-project/gantry/internal/kubelet/podactions"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// PodAllocation is what a worker knows of its Pod's resources. The zero record is that of a Pod
// that is not admitted yet.
type PodAllocation struct {
	m      *Manager
	worker PodWorker
	ref    journal.Ref
	uid    types.UID

	record       podactions.AllocationRecord
	checkpointed bool              // the store has the record
	inProgress   bool              // not all that was allocated is actuated
	failure      string            // why actuating it failed last; empty when it did not
	pending      *podstatus.Resize // why the newest resize was not granted; nil when it was
	deferredAt   time.Time         // zero: it is not deferred
}

// NewPod returns the PodAllocation of a Pod that is not admitted yet.
func (m *Manager) NewPod(ref journal.Ref, uid types.UID, w PodWorker) *PodAllocation {
	return &PodAllocation{m: m, worker: w, ref: ref, uid: uid}
}

// ApplyTo is the Pod with the resources it was allocated; the Pod itself before it is admitted.
func (z *PodAllocation) ApplyTo(p *v1.Pod) *v1.Pod { return z.record.Allocated.ApplyTo(p) }

// Applied is what runs of the Pod were really given; nil before it is admitted.
func (z *PodAllocation) Applied() podplan.Applied { return z.record.Applied }

func (z *PodAllocation) admitted() bool { return z.record.Applied != nil }

// Admitted learns the resources of a Pod that this kubelet takes in; before tells that a kubelet
// before this one had taken it in, and may have resized it. What its status says of a resize that
// waits is gone on with: it is neither counted nor told of again.
func (z *PodAllocation) Admitted(ctx context.Context, p *v1.Pod, before bool) {
	z.record = podactions.AllocationRecord{Allocated: pod.AllocationOf(p), Applied: podplan.Applied{},
		Generation: p.Generation}
	if before {
		if c := pod.Condition(p, v1.PodResizePending); c != nil && c.Status == v1.ConditionTrue {
			z.pending = &podstatus.Resize{Reason: c.Reason, Message: c.Message, Generation: c.ObservedGeneration}
			if c.Reason == v1.PodReasonDeferred {
				z.deferredAt = c.LastTransitionTime.Time
			}
		}
		g, ok, err := z.m.d.Store.Load(z.uid)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Cannot read what the Pod was granted, going by its status")
		}
		z.checkpointed = ok
		if ok {
			z.record = g
		} else {
			z.record.Allocated = resourcesFromStatus(p)
			for name, r := range z.record.Allocated.Containers {
				z.record.Applied[name] = r
			}
		}
	}
	if _, has := z.record.Applied[podplan.PodResources]; !has {
		if z.record.Applied == nil {
			z.record.Applied = podplan.Applied{}
		}
		z.record.Applied[podplan.PodResources] = podplan.ResourcesOf(
			z.record.Applied.ApplyTo(z.record.Allocated.ApplyTo(p)), podplan.PodResources)
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

// Sync asks for the resources of the desired Pod when they are not those it was allocated. True:
// they were granted just now, and ApplyTo and Applied have changed.
func (z *PodAllocation) Sync(ctx context.Context, desired *v1.Pod, in podplan.In) bool {
	if !z.admitted() || in.End != nil || !in.Facts.StopRequested.IsZero() {
		z.resolved(desired, "terminated", in.Now)
		z.m.Forget(z.uid)
		return false
	}
	if z.record.Allocated.Matches(desired) {
		z.pending = nil
		z.resolved(desired, "reverted", in.Now)
		z.m.Forget(z.uid)
		return false
	}
	refusal, decided := z.m.request(pendingResize{worker: z.worker,
		Resize:  admit.Resize{Pod: desired, Allocated: in.Pod, Since: pendingSince(in)},
		resumed: z.pending != nil && z.pending.Generation == desired.Generation})
	if !decided {
		return false
	}
	if refusal != nil {
		z.refused(desired, refusal)
		return false
	}
	g := podactions.AllocationRecord{Allocated: pod.AllocationOf(desired), Applied: z.actuated(in.Pod),
		Generation: desired.Generation}
	if err := z.m.d.Store.Save(z.uid, g); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot keep the Pod's new size, going on with the old one")
		z.refused(desired, &reason.Refusal{Code: reason.ResizeDeferred, By: "kubelet", Detail: err.Error(), Err: err})
		return false
	}
	z.record, z.checkpointed, z.pending, z.inProgress, z.failure = g, true, nil, true, ""
	z.resolved(desired, "accepted", in.Now)
	z.m.Forget(z.uid)
	z.put(journal.Waiting{For: "its new size to be in force", Since: in.Now})
	z.m.d.Events.Pod(desired, v1.EventTypeNormal, "ResizeStarted", eventMessage("started", z.ApplyTo(desired),
		g.Generation, ""))
	return true
}

func (z *PodAllocation) put(f journal.Fact) { z.m.d.Journal.Put(z.ref, f) }

// resolved counts the end of a deferred resize.
func (z *PodAllocation) resolved(p *v1.Pod, how string, now time.Time) {
	if !z.deferredAt.IsZero() {
		z.m.d.Metrics.ResizeDeferred(p, how, now.Sub(z.deferredAt))
		z.deferredAt = time.Time{}
	}
}

// pendingSince is from when the Pod's resize waits, which a kubelet before this one may have
// written down.
func pendingSince(in podplan.In) time.Time {
	if c := pod.Condition(in.Pod, v1.PodResizePending); c != nil {
		return c.LastTransitionTime.Time
	}
	return in.Now
}

// actuated is what is applied, filled in with what was allocated for containers that were started
// as allocated.
func (z *PodAllocation) actuated(p *v1.Pod) podplan.Applied {
	out := podplan.Applied{}
	for name, r := range z.record.Allocated.Containers {
		out[name] = r
	}
	maps.Copy(out, z.record.Applied)
	if _, ok := out[podplan.PodResources]; !ok {
		out[podplan.PodResources] = podplan.ResourcesOf(p, podplan.PodResources)
	}
	return out
}

// refused notes that a resize was not granted, and tells when that is new.
func (z *PodAllocation) refused(p *v1.Pod, refusal *reason.Refusal) {
	next := &podstatus.Resize{Reason: string(refusal.Code), Message: refusal.Detail, Generation: p.Generation}
	if z.pending != nil && *z.pending == *next {
		return
	}
	z.pending = next
	if refusal.Code == reason.ResizeDeferred && z.deferredAt.IsZero() {
		z.deferredAt = time.Now()
	}
	if refusal.Code == reason.ResizeInfeasible {
		z.m.d.Metrics.ResizeInfeasible(refusal.Detail)
	}
	z.put(journal.Waiting{For: fmt.Sprintf("its new size (%s): %s", refusal.Code, refusal.Detail), Since: time.Now(),
		Next: nextStep(refusal.Code), Fix: refusal.Fix})
	what := next.Reason // the event names what stands in the way, as upstream's does
	if cause := (*reason.Refusal)(nil); errors.As(refusal.Err, &cause) {
		what = string(cause.Code)
	}
	z.m.d.Events.Pod(p, v1.EventTypeWarning, "Resize"+next.Reason, eventMessage(what, p, p.Generation, next.Message))
}

func nextStep(code reason.Code) string {
	if code == reason.ResizeInfeasible {
		return "nothing: it keeps its size"
	}
	return "granted when others leave room"
}

// Actuated notes which resources the actions that were done have put in force; p has what was
// allocated.
func (z *PodAllocation) Actuated(p *v1.Pod, done []podplan.Action) {
	var names []string
	for _, a := range done {
		switch a := a.(type) {
		case podplan.Start:
			if a.Kind != podplan.Ephemeral {
				names = append(names, a.Name)
			}
		case podplan.Resize:
			for _, c := range a.Containers {
				names = append(names, c.Name)
			}
			if a.FinalizePodCgroup {
				names = append(names, podplan.PodResources)
			}
		}
	}
	if len(names) == 0 || !z.admitted() {
		return
	}
	for _, name := range names {
		z.record.Applied = z.record.Applied.With(name, podplan.ResourcesOf(p, name))
	}
	if !z.checkpointed {
		return
	}
	if err := z.m.d.Store.Save(z.uid, z.record); err != nil {
		klog.ErrorS(err, "Cannot keep which size is in force; a restarted kubelet will put it in force again",
			"podUID", z.uid)
	}
}

// Progress tells when a resize has come into force or has failed. True: it has just come into
// force, which may leave room for others.
func (z *PodAllocation) Progress(in podplan.In) (completed bool) {
	if !z.inProgress {
		z.inProgress = z.checkpointed && podplan.Resizing(in) // a kubelet before this one did not finish it
	}
	if !z.inProgress {
		return false
	}
	if t, failed := in.Tries[podplan.ResizeTry]; failed && withoutDigits(z.failure) != withoutDigits(t.Refusal.Detail) {
		z.failure = t.Refusal.Detail
		z.m.d.Events.Pod(in.Pod, v1.EventTypeWarning, "ResizeError", eventMessage("error", in.Pod,
			z.record.Generation, z.failure))
	}
	if in.End == nil && in.Facts.StopRequested.IsZero() && !podplan.Resizing(in) {
		z.inProgress, z.failure = false, ""
		z.m.d.Events.Pod(in.Pod, v1.EventTypeNormal, "ResizeCompleted", eventMessage("completed", in.Pod,
			z.record.Generation, ""))
		return true
	}
	return false
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

// Status is what the Pod's status says about its resize.
func (z *PodAllocation) Status(in podplan.In) podstatus.ResizeStatus {
	s := podstatus.ResizeStatus{Applied: in.Applied, Pending: z.pending}
	if z.inProgress {
		s.Running = &podstatus.Resize{Generation: z.record.Generation, Message: z.failure}
		if z.failure != "" {
			s.Running.Reason = v1.PodReasonError
		}
	}
	return s
}

// eventMessage is the message of a resize's event in upstream's form.
func eventMessage(what string, p *v1.Pod, generation int64, failure string) string {
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
