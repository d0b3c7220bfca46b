package podplan

import (
	"time"

	"github.com/gantry-project/gantry/internal/pod"
)

// Finished is the cause of a Pod whose containers have ended for good.
const Finished = "finished"

// DeadlineReason and DeadlineMessage tell that a Pod was ended by its activeDeadlineSeconds.
const (
	DeadlineReason  = "DeadlineExceeded"
	DeadlineMessage = "Pod was active on the node longer than the specified deadline"
)

// EffectiveTermination says why and until when the Pod has to stop: somebody asked, its deadline
// passed, or its containers have ended for good. Nil means that it goes on. Of several causes the
// first in this order is named and the earliest time counts.
func EffectiveTermination(in In) *Termination {
	var end *Termination
	add := func(s Termination) {
		if end == nil {
			end = &s
			return
		}
		if s.Deadline().Before(end.Deadline()) {
			end.Grace = s.Deadline().Sub(end.RequestedAt)
		}
	}
	requestedAt := in.Facts.StopRequested
	if requestedAt.IsZero() {
		requestedAt = in.Now
	}
	if in.End != nil {
		add(*in.End)
	}
	own := Termination{RequestedAt: requestedAt, Grace: pod.GracePeriod(&in.Pod.Spec)}
	if !in.Facts.Refused.IsZero() {
		own.Cause = "refused"
		add(own)
	}
	if d, has := deadline(in); has && !in.Now.Before(d) {
		own.Cause, own.Reason, own.Message = "deadline exceeded", DeadlineReason, DeadlineMessage
		add(own)
		return end
	}
	_, done := Outcome(in.Pod, in.Observed)
	if done || pod.IsTerminal(in.Pod) || !in.Facts.ContainersStopped.IsZero() {
		own.Cause = Finished
		add(own)
	}
	return end
}

// deadline is when activeDeadlineSeconds are over; they count from the time the kubelet took the
// Pod in.
func deadline(in In) (time.Time, bool) {
	s := in.Pod.Spec.ActiveDeadlineSeconds
	if s == nil || in.Facts.Accepted.IsZero() {
		return time.Time{}, false
	}
	from := in.Facts.Accepted
	if t := in.Pod.Status.StartTime; t != nil {
		from = t.Time
	}
	return from.Add(time.Duration(*s) * time.Second), true
}

// planTermination plans the end: containers in their order, sandboxes, then the devices of claims,
// which the API gives to others once the Pod is shown to have ended, then volumes and cgroup, then
// the records in the runtime, each when the one before is seen to be over.
func planTermination(in In, end Termination) Plan {
	var p Plan
	if kills := terminationKills(in, end); len(kills) > 0 {
		if !in.waitsForRetry(&p, StopTry) {
			p.Do = append(p.Do, Stop{kills})
		}
		return p
	}
	for _, s := range in.Observed.Sandboxes {
		if s.Ready && !in.waitsForRetry(&p, StopTry) {
			p.Do = append(p.Do, StopSandbox{ID: s.ID})
		}
	}
	if len(p.Do) > 0 || in.Observed.Alive() || waitForUncertainSandbox(in, &p) {
		return p
	}
	if in.HoldsClaims {
		if !in.waitsForRetry(&p, UnprepareTry) {
			p.Do = append(p.Do, UnprepareResources{})
		}
		return p
	}
	if in.waitsForRetry(&p, ReleaseTry) {
		return p
	}
	if in.Remove {
		for _, c := range in.Observed.Containers {
			if c.Sandbox != "" {
				p.Do = append(p.Do, RemoveContainer{c.ID, c.Name})
			}
		}
		for _, s := range in.Observed.Sandboxes {
			p.Do = append(p.Do, RemoveSandbox{s.ID})
		}
	}
	if in.Facts.Released.IsZero() || in.Remove && in.Facts.Removed.IsZero() {
		p.Do = append(p.Do, Release{Logs: in.Remove})
	}
	p.Done = len(p.Do) == 0
	return p
}

// terminationKills says how each living container is stopped: all but sidecars at once, then the
// sidecars one after another, the last one first. A stop that failed, as when the runtime was
// restarted in its midst, is retried with the full grace.
// https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#termination-with-sidecars
// https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
func terminationKills(in In, end Termination) []Kill {
	remaining := end.Deadline().Sub(in.Now)
	if _, failed := in.Tries[StopTry]; failed {
		remaining = end.Grace
	}
	var kills, sidecars []Kill
	for _, c := range in.Observed.Containers {
		if !c.alive() {
			continue
		}
		m, known := MemberOf(in.Pod, c.Name)
		k := Kill{ID: c.ID, Name: c.Name, Kind: m.Kind, Grace: max(remaining, 0), Event: "Stopping container " + c.Name,
			Cause: end.Cause, StopSignal: c.Usage.StopSignal, Immediate: end.Immediate, RunPreStop: remaining > 0}
		if known && m.Kind == Sidecar {
			sidecars = append(sidecars, k)
			continue
		}
		kills = append(kills, k)
	}
	wave := 0
	if len(kills) > 0 {
		wave = 1
	}
	inits := in.Pod.Spec.InitContainers
	for i := len(inits) - 1; i >= 0; i-- {
		for _, k := range sidecars {
			if k.Name == inits[i].Name {
				k.Order = wave
				kills = append(kills, k)
				wave++
			}
		}
	}
	return kills
}
