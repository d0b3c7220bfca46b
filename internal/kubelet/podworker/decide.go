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
func (w *worker) decide(ctx context.Context, wish *Wish) podplan.Plan {
	now := time.Now()
	if !w.life.facts.Doubt.GivenUp.IsZero() {
		w.life.fresh = false
	}
	if err := w.look(ctx); err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).V(1).Info("Cannot see the Pod in the runtime, trying again", "err", err)
		}
		return podplan.Plan{Wake: now.Add(time.Second)}
	}
	in := w.in(wish, now)
	w.life.ends.self = false
	w.learn(ctx, wish, &in)
	w.refresh(ctx, in)
	plan := podplan.Next(in)
	w.life.ends.health = in.Health
	w.life.waits = w.waiting(in, plan)
	w.tellStatus(in, wish)
	if w.life.size.settled {
		w.life.size.settled = false
		w.pool.settle() // a Pod that has become smaller leaves room
	}
	w.say(in, plan)
	if plan.Done && !w.life.over {
		w.life.over = true
		w.overdue(in)
		if in.Remove {
			w.put(journal.Released{})
			if !wish.Gone && in.Pod.DeletionTimestamp != nil {
				w.pool.d.Statuses.Finish(wish.Pod)
			}
		}
	}
	w.life.over = plan.Done
	return plan
}

// startLooks is how many looks at a Pod that starts are put into the journal: they are a share of its start, later ones delay nobody.
const startLooks = 8

// look reads the runtime's state unless the last look still holds.
func (w *worker) look(ctx context.Context) error {
	if w.life.fresh {
		return nil
	}
	defer w.begin(w.path(w.wish.Load(), nil), "asking the runtime for the Pod's state", patience)()
	begun := time.Now()
	seen, err := w.pool.d.Look.Look(ctx, w.uid)
	if err != nil {
		return err
	}
	if s := w.life.told.status; w.looks < startLooks && (s == nil || s.Phase == v1.PodPending) {
		w.looks++
		w.put(journal.Called{Service: "CRI", Method: "List", Took: journal.Took(time.Since(begun))})
	}
	w.life.seen, w.life.fresh = seen, true
	return nil
}

// in gathers everything a decision depends on.
func (w *worker) in(wish *Wish, now time.Time) podplan.In {
	pod := w.pod(wish)
	in := podplan.In{
		Pod: pod, Seen: podstatus.Remember(w.marked(w.life.seen), pod.Status), Facts: w.life.facts, End: wish.End,
		Remove: wish.End != nil && (wish.Gone || pod.DeletionTimestamp != nil),
		Tries:  w.life.tries, Limits: w.pool.d.Limits, Now: now, Applied: w.life.size.granted.Applied,
	}
	in.Health = w.health(in)
	return in
}

// learn turns what was seen and asked for into facts.
func (w *worker) learn(ctx context.Context, wish *Wish, in *podplan.In) {
	f := &w.life.facts
	if f.Accepted.IsZero() && f.Refused.IsZero() && in.End == nil {
		w.accept(ctx, wish, in)
	}
	in.Facts = *f
	_, doubtful := podplan.Doubtful(*in)
	if !doubtful {
		f.Doubt = podplan.Doubt{}
	}
	w.resize(ctx, wish, in)
	w.progress(*in)
	if end := podplan.Ending(*in); end != nil && f.StopAsked.IsZero() {
		f.StopAsked = in.Now
		w.life.ends.self = end.Cause == podplan.Finished && !w.life.ends.last
		w.put(journal.Killing{Cause: end.Cause, Grace: int64(end.Grace / time.Second)})
		w.overdue(*in)
	}
	if !f.StopAsked.IsZero() && f.AllStopped.IsZero() && !in.Seen.Alive() && !doubtful {
		f.AllStopped = in.Now
		w.overdue(*in)
		w.life.ends.late = endedByNode(*in) || w.life.ends.last
		close(w.rest)
		w.show(in.Pod)
		w.pool.settle() // it leaves room
		w.pool.ringWaiting()
	}
	in.Facts = *f
}

// overdue tells that a Pod ends for its deadline; upstream tells it at each step of the end.
func (w *worker) overdue(in podplan.In) {
	s := in.Pod.Status
	if (s.Phase == v1.PodSucceeded || s.Phase == v1.PodFailed) && s.Reason != podplan.DeadlineReason {
		return // it had ended before
	}
	if end := podplan.Ending(in); end != nil && end.Reason == podplan.DeadlineReason && in.Pod.DeletionTimestamp == nil {
		w.pool.d.Events.Deadline(in.Pod, end.Reason, end.Message)
	}
}

// endedByNode tells whether a Pod whose work is done had sidecars that the kubelet stopped.
func endedByNode(in podplan.In) bool {
	end := podplan.Ending(in)
	return end != nil && end.Cause == podplan.Finished && slices.ContainsFunc(podplan.Members(in.Pod), func(m podplan.Member) bool {
		return m.Kind == podplan.Sidecar && in.Seen.Latest(m.Name) != nil
	})
}

// accept admits the Pod, unless an older one holds its name. A Pod that was admitted before this kubelet began is not asked again.
func (w *worker) accept(ctx context.Context, wish *Wish, in *podplan.In) {
	if holder, held := w.pool.claim(w.name, w.uid, wish.Source); held {
		w.wait("an older Pod of this name to leave the node", "it begins when nothing is left of the Pod with uid "+string(holder))
		return
	}
	before := in.Pod.Status.StartTime != nil || len(in.Seen.Sandboxes) > 0
	if !before && len(w.life.room) == 0 {
		if no := w.judge(in.Pod); no != nil {
			w.life.facts.Refused, w.life.refusal = in.Now, no
			w.put(journal.Refused{Reason: string(no.Code), Message: no.Detail})
			w.pool.d.Events.Pod(in.Pod, v1.EventTypeWarning, string(no.Code), no.Detail)
			klog.FromContext(ctx).Info("Pod refused", "reason", no.Code, "detail", no.Detail)
			return
		}
	}
	if !w.roomMade() {
		w.wait("Pods that make room for it to end", "their containers have their grace period")
		return
	}
	w.life.facts.Accepted = onNodeSince(*in)
	w.measure(ctx, wish.Pod, before)
	in.Pod, in.Applied = w.pod(wish), w.life.size.granted.Applied
	accepted := journal.Accepted{Source: wish.Source}
	if !podvocab.IsStatic(wish.Pod) {
		accepted.Created = wish.Pod.CreationTimestamp.Time
	}
	w.put(accepted)
	w.pool.d.Meter.Admitted(in.Pod)
	w.show(in.Pod)
}

// onNodeSince is since when the Pod is on the node: as its status tells, else as its oldest sandbox does, which a kubelet before this one made for a
// Pod whose status nobody keeps (a static one), else now.
func onNodeSince(in podplan.In) time.Time {
	if t := in.Pod.Status.StartTime; t != nil {
		return t.Time
	}
	at := in.Now
	for i := range in.Seen.Sandboxes {
		if made := in.Seen.Sandboxes[i].Created; !made.IsZero() && made.Before(at) {
			at = made
		}
	}
	return at
}

// judge asks admission, one Pod at a time, so that two do not take the same room.
func (w *worker) judge(pod *v1.Pod) *reason.Refusal {
	w.pool.admit.Lock()
	defer w.pool.admit.Unlock()
	victims, no := w.pool.d.Admit(pod, w.pool.others(w.uid))
	for _, v := range victims {
		w.displace(v)
	}
	if no == nil {
		w.mu.Lock()
		w.seen.Stage = podplan.Preparing
		w.mu.Unlock()
	}
	return no
}

// show makes the Pod and its stage visible to others.
func (w *worker) show(pod *v1.Pod) {
	w.mu.Lock()
	w.seen = View{Pod: pod, Source: w.wish.Load().Source, Stage: w.life.facts.Stage(), Seen: w.life.seen}
	if w.seen.Stage == podplan.Waiting && len(w.life.room) > 0 {
		w.seen.Stage = podplan.Preparing // its room is taken
	}
	w.mu.Unlock()
}

// refresh brings volumes up to date whose content follows API objects, after one of these changed.
func (w *worker) refresh(ctx context.Context, in podplan.In) {
	if about := w.life.shown.of; about != nil && (!maps.Equal(about.Labels, in.Pod.Labels) || !maps.Equal(about.Annotations, in.Pod.Annotations)) {
		w.life.shown.stale = true // downward API
	}
	w.life.shown.of = in.Pod
	if !w.life.shown.stale {
		return
	}
	w.life.shown.stale = false
	for name, t := range w.life.tries { // what failed for a missing object may succeed now
		t.At = time.Time{}
		w.life.tries[name] = t
	}
	if in.Facts.Stage() != podplan.Active {
		return
	}
	if err := w.pool.d.Hands.Refresh(ctx, in.Pod); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Cannot refresh the Pod's volumes")
	}
}

// wait states what the Pod waits for, once.
func (w *worker) wait(what, next string) {
	key := "wait " + what
	if w.life.said[key] {
		return
	}
	w.life.said[key] = true
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
