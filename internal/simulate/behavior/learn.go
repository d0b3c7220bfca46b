package behavior

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// longestStart is the longest time to run or to become ready that is believed. The condition Ready
// tells only of its last change, so of a Pod that was ready, was not, and is again it tells how old
// the Pod is; hardly any container takes a quarter of an hour.
const longestStart = 15 * time.Minute

// Learn measures how long Pods took that run, from their statuses, to the second: from the binding
// to the start of the last container, and from there to readiness. What Pods do not tell (how long
// they take to stop) is that of assumed. Pods whose containers were started again tell nothing, nor
// do those that took longer than longestStart.
func Learn(pods []*v1.Pod, assumed Times) map[string]Times {
	start, ready := map[string][]time.Duration{}, map[string][]time.Duration{}
	for _, p := range pods {
		key := OwnerKey(p)
		bound, isBound := trueSince(p, v1.PodScheduled)
		readyAt, isReady := trueSince(p, v1.PodReady)
		running, ok := runningSince(p)
		if key == "" || !isBound || !isReady || !ok || running.Before(bound) || readyAt.Before(running) {
			continue
		}
		toRun, toReady := running.Sub(bound), readyAt.Sub(running)
		if toRun > longestStart || toReady > longestStart {
			continue
		}
		start[key], ready[key] = append(start[key], toRun), append(ready[key], toReady)
	}
	out := map[string]Times{}
	for key := range start {
		t := assumed
		t.Start, t.Ready, t.Samples = spanOf(start[key]), spanOf(ready[key]), len(start[key])
		out[key] = t
	}
	return out
}

// spanOf is the median and the 99th percentile of durations, of which there is at least one.
func spanOf(all []time.Duration) Span {
	slices.Sort(all)
	return Span{P50: all[len(all)/2], P99: all[min(len(all)*99/100, len(all)-1)]}
}

func trueSince(p *v1.Pod, t v1.PodConditionType) (time.Time, bool) {
	if c := pod.Condition(p, t); c != nil && c.Status == v1.ConditionTrue {
		return c.LastTransitionTime.Time, true
	}
	return time.Time{}, false
}

// runningSince is when the last container started, of a Pod none of whose was started again.
func runningSince(p *v1.Pod) (time.Time, bool) {
	var last time.Time
	for _, c := range p.Status.ContainerStatuses {
		if c.RestartCount > 0 || c.State.Running == nil {
			return last, false
		}
		if at := c.State.Running.StartedAt.Time; at.After(last) {
			last = at
		}
	}
	return last, !last.IsZero()
}
