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
	"github.com/gantry-project/gantry/internal/kubelet/podexec"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// size is what a worker knows of its Pod's sizes: what the node granted, what of it is in force, and what it makes of a wish for others.
type size struct {
	granted podexec.Grant
	known   bool // granted holds: the Pod was admitted
	kept    bool // the ledger has it
	running bool // not all of it is in force
	settled bool // all of it has just come into force: others may have more room
	failure string
	pending *podstatus.Resize // why the newest wish was not granted; nil when it was
	since   time.Time         // from when it is deferred; zero: it is not
}

// measure learns the sizes of a Pod that this kubelet takes in, or takes over from the kubelet before it.
func (w *worker) measure(ctx context.Context, p *v1.Pod, before bool) {
	z := &w.life.size
	z.known = true
	z.granted = podexec.Grant{Allocated: pod.SizesOf(p), Applied: podplan.Applied{}, Generation: p.Generation}
	if before {
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodResizePending && c.Status == v1.ConditionTrue {
				z.pending = &podstatus.Resize{Reason: c.Reason, Message: c.Message, Generation: c.ObservedGeneration}
			}
		}
		g, ok, err := w.pool.d.Grants.Load(w.uid)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Cannot read what the Pod was granted, going by its status")
		}
		z.kept = ok
		if ok {
			z.granted = g
		} else {
			z.granted.Allocated = shown(p)
			for name, r := range z.granted.Allocated.Containers {
				z.granted.Applied[name] = r
			}
		}
	}
	if _, has := z.granted.Applied[podplan.PodSize]; !has {
		z.granted.Applied[podplan.PodSize] = podplan.Size(z.granted.Applied.On(z.granted.Allocated.On(p)), podplan.PodSize)
	}
}

// shown is what a Pod's status says it was given, for containers it says that of; else what its spec says.
func shown(p *v1.Pod) pod.Sizes {
	s := pod.SizesOf(p)
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

// resize asks for the sizes of the wish when they are not those that were granted, and makes a grant known.
func (w *worker) resize(ctx context.Context, wish *Wish, in *podplan.In) {
	z := &w.life.size
	if !z.known || in.End != nil || !in.Facts.StopAsked.IsZero() {
		w.resolved(wish.Pod, "terminated", in.Now)
		w.pool.withdraw(w.uid)
		return
	}
	if z.granted.Allocated.Fit(wish.Pod) {
		z.pending = nil
		w.resolved(wish.Pod, "reverted", in.Now)
		w.pool.withdraw(w.uid)
		return
	}
	no, judged := w.pool.ask(w, admit.Resize{Pod: wish.Pod, Allocated: in.Pod, Since: w.since(in)})
	if !judged {
		return
	}
	if no != nil {
		w.putOff(wish.Pod, no)
		return
	}
	g := podexec.Grant{Allocated: pod.SizesOf(wish.Pod), Applied: w.inForce(*in), Generation: wish.Pod.Generation}
	if err := w.pool.d.Grants.Save(w.uid, g); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot keep the Pod's new size, going on with the old one")
		w.putOff(wish.Pod, &reason.Refusal{Code: reason.ResizeDeferred, By: "kubelet", Detail: err.Error(), Err: err})
		return
	}
	z.granted, z.kept, z.pending, z.failure = g, true, nil, ""
	w.resolved(wish.Pod, "accepted", in.Now)
	delete(w.life.tries, podplan.ResizeTry)
	w.pool.withdraw(w.uid)
	in.Pod, in.Applied = w.pod(wish), g.Applied
	z.running = true
	w.put(journal.Waiting{For: "its new size to be in force", Since: in.Now})
	w.pool.d.Events.Pod(wish.Pod, v1.EventTypeNormal, "ResizeStarted", resizeText("started", in.Pod, g.Generation, ""))
	w.show(in.Pod)
}

// resolved counts the end of a deferred resize.
func (w *worker) resolved(p *v1.Pod, how string, now time.Time) {
	if z := &w.life.size; !z.since.IsZero() {
		w.pool.d.Meter.ResizeDeferred(p, how, now.Sub(z.since))
		z.since = time.Time{}
	}
}

// since is from when the Pod's wish for other sizes waits, which a kubelet before this one may have written down.
func (w *worker) since(in *podplan.In) time.Time {
	for _, c := range in.Pod.Status.Conditions {
		if c.Type == v1.PodResizePending {
			return c.LastTransitionTime.Time
		}
	}
	return in.Now
}

// inForce is what is applied, filled in with what was granted for containers that were started as granted.
func (w *worker) inForce(in podplan.In) podplan.Applied {
	out := podplan.Applied{}
	for name, r := range w.life.size.granted.Allocated.Containers {
		out[name] = r
	}
	maps.Copy(out, w.life.size.granted.Applied)
	if _, ok := out[podplan.PodSize]; !ok {
		out[podplan.PodSize] = podplan.Size(in.Pod, podplan.PodSize)
	}
	return out
}

// putOff notes that a wish for other sizes was not granted, and tells when that is new.
func (w *worker) putOff(p *v1.Pod, no *reason.Refusal) {
	z := &w.life.size
	next := &podstatus.Resize{Reason: string(no.Code), Message: no.Detail, Generation: p.Generation}
	if z.pending != nil && *z.pending == *next {
		return
	}
	tell := z.pending == nil || z.pending.Reason != next.Reason || z.pending.Message != next.Message || z.pending.Generation != next.Generation
	z.pending = next
	if no.Code == reason.ResizeDeferred && z.since.IsZero() {
		z.since = time.Now()
	}
	if !tell {
		return
	}
	if no.Code == reason.ResizeInfeasible {
		w.pool.d.Meter.ResizeInfeasible(no.Detail)
	}
	w.put(journal.Waiting{For: fmt.Sprintf("its new size (%s): %s", no.Code, no.Detail), Since: time.Now(), Next: nextOf(no.Code), Fix: no.Fix})
	w.pool.d.Events.Pod(p, v1.EventTypeWarning, "Resize"+next.Reason, resizeText(next.Reason, p, p.Generation, next.Message))
}

func nextOf(code reason.Code) string {
	if code == reason.ResizeInfeasible {
		return "nothing: it keeps its size"
	}
	return "granted when others leave room"
}

// applied notes that something runs with the size it was granted.
func (w *worker) applied(p *v1.Pod, names ...string) {
	z := &w.life.size
	if !z.known {
		return
	}
	for _, name := range names {
		z.granted.Applied = z.granted.Applied.With(name, podplan.Size(p, name))
	}
	if !z.kept {
		return
	}
	if err := w.pool.d.Grants.Save(w.uid, z.granted); err != nil {
		klog.ErrorS(err, "Cannot keep which size is in force; a restarted kubelet will put it in force again", "podUID", w.uid)
	}
}

// progress tells when a resize has come into force or has failed.
func (w *worker) progress(in podplan.In) {
	z := &w.life.size
	if !z.running {
		z.running = z.kept && podplan.Resizing(in) // a kubelet before this one did not finish it
	}
	if !z.running {
		return
	}
	if t, failed := in.Tries[podplan.ResizeTry]; failed && letters(z.failure) != letters(t.Refusal.Detail) {
		z.failure = t.Refusal.Detail
		w.pool.d.Events.Pod(in.Pod, v1.EventTypeWarning, "ResizeError", resizeText("error", in.Pod, z.granted.Generation, z.failure))
	}
	if in.End == nil && in.Facts.StopAsked.IsZero() && !podplan.Resizing(in) {
		z.running, z.failure = false, ""
		w.pool.d.Events.Pod(in.Pod, v1.EventTypeNormal, "ResizeCompleted", resizeText("completed", in.Pod, z.granted.Generation, ""))
		z.settled = true
	}
}

// letters is a text without its numbers: what is in use changes from try to try and is no news.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s)
}

// sizes is what the status says about sizes.
func (z *size) sizes(in podplan.In) podstatus.Sizes {
	s := podstatus.Sizes{Applied: in.Applied, Pending: z.pending}
	if z.running {
		s.Running = &podstatus.Resize{Generation: z.granted.Generation, Message: z.failure}
		if z.failure != "" {
			s.Running.Reason = v1.PodReasonError
		}
	}
	return s
}

// resizeText is the message of a resize's event in upstream's form.
func resizeText(what string, p *v1.Pod, generation int64, failure string) string {
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
