package explain

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
)

// factsOf makes facts of one event about a Pod; rows are by the event's reason, their texts are
// upstream's.
var factsOf = map[string]func(In, *corev1.Event) []journal.Fact{
	"Unhealthy":              probedFacts,
	"Killing":                killingFacts,
	"FailedPostStartHook":    hookFacts,
	"Started":                startedFacts,
	"Pulling":                pullingFacts,
	"Pulled":                 pulledFacts,
	"Failed":                 pullFailedFacts,
	"FailedMount":            volumeFacts,
	"FailedAttachVolume":     volumeFacts,
	"FailedMapVolume":        volumeFacts,
	"FailedCreatePodSandBox": sandboxFacts,
	"FailedScheduling":       ruledFacts,
	"Scheduled":              boundFacts,
	"Preempted":              preemptedFacts,
	"TaintManagerEviction":   taintFacts,
}

// FactsOfEvents are the entries of a journal that a Pod's events and status stand for, oldest
// first: what an API server without a journal knows of them. Of repeated events the first and the
// last time are known. Nothing is made up: what events do not say (sockets, peaks of memory, how
// far a stop has come, who deleted a Pod) is in no entry.
func FactsOfEvents(in In) []journal.Entry {
	var out []journal.Entry
	put := func(at time.Time, by string, facts ...journal.Fact) {
		for _, f := range facts {
			out = append(out, journal.Entry{At: at, Ref: in.Ref, By: by, Fact: f})
		}
	}
	for i := range in.Events {
		e := &in.Events[i]
		facts, ok := factsOf[e.Reason]
		if !ok || e.InvolvedObject.Kind != "" && e.InvolvedObject.Kind != "Pod" {
			continue
		}
		list := facts(in, e)
		if first := firstTime(e); first.Before(eventTime(e)) {
			put(first, e.Source.Component, list...)
		}
		put(eventTime(e), e.Source.Component, list...)
	}
	if in.Pod != nil {
		statusFacts(in.Pod, put)
	}
	slices.SortStableFunc(out, func(a, b journal.Entry) int { return a.At.Compare(b.At) })
	if in.Pod != nil {
		out = slices.DeleteFunc(out, func(e journal.Entry) bool { return isSuperseded(in, e) })
	}
	counted(in.Pod, out, in.Events)
	return out
}

// firstTime is when an event happened first.
func firstTime(e *corev1.Event) time.Time {
	switch {
	case !e.FirstTimestamp.IsZero():
		return e.FirstTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return eventTime(e)
}

var namedContainer = regexp.MustCompile(`\{([^}]+)\}`)

// containerOf is the container that an event is about; empty: the whole Pod.
func containerOf(e *corev1.Event) string {
	if m := namedContainer.FindStringSubmatch(e.InvolvedObject.FieldPath); m != nil {
		return m[1]
	}
	return ""
}

// specOf is a container of a Pod by name; nil when there is none.
func specOf(p *corev1.Pod, name string) *corev1.Container {
	if p == nil {
		return nil
	}
	for _, c := range containers(p) {
		if c.spec.Name == name {
			return c.spec
		}
	}
	return nil
}

// counted gives the newest failure of each probe the number of its failures: of all its events, and
// no more than the container's run has had periods for.
func counted(p *corev1.Pod, entries []journal.Entry, events []corev1.Event) {
	type key struct{ container, probe string }
	all := map[key]int{}
	for i := range events {
		if m := probeWords.FindStringSubmatch(events[i].Message); m != nil && events[i].Reason == "Unhealthy" {
			all[key{containerOf(&events[i]), strings.ToLower(m[1])}] += timesOf(&events[i])
		}
	}
	if p == nil {
		return
	}
	for i := len(entries) - 1; i >= 0; i-- {
		f, ok := entries[i].Fact.(journal.Probed)
		n := all[key{f.Container, f.Probe}]
		if !ok || n == 0 {
			continue
		}
		f.Count = min(n, periodsOf(p, f, entries[i].At))
		entries[i].Fact = f
		delete(all, key{f.Container, f.Probe})
	}
}

// timesOf is how often an event happened.
func timesOf(e *corev1.Event) int {
	n := max(int(e.Count), 1)
	if e.Series != nil {
		n = max(n, int(e.Series.Count))
	}
	return n
}

// periodsOf is how often a probe can have been asked in a container's present run until a time.
func periodsOf(p *corev1.Pod, f journal.Probed, until time.Time) int {
	for _, c := range containers(p) {
		if c.spec.Name != f.Container || c.status == nil || c.status.State.Running == nil {
			continue
		}
		probe := probeOf(c.spec, f.Probe)
		if run := until.Sub(c.status.State.Running.StartedAt.Time); probe != nil && run >= 0 {
			return int(run/secondsOf(int64(max(probe.PeriodSeconds, 1)))) + 1
		}
	}
	return math.MaxInt
}

// statusFacts puts what a Pod's status alone tells: that the kubelet has it, how containers ended,
// and how long they are held back.
func statusFacts(p *corev1.Pod, put func(time.Time, string, ...journal.Fact)) {
	if t := p.Status.StartTime; t != nil {
		put(t.Time, "kubelet", journal.Accepted{Source: "api"})
	}
	for _, c := range containers(p) {
		if c.status == nil {
			continue
		}
		for _, t := range []*corev1.ContainerStateTerminated{c.status.LastTerminationState.Terminated,
			c.status.State.Terminated} {
			if t != nil {
				put(t.FinishedAt.Time, "kubelet", journal.ContainerExited{Container: c.spec.Name, ID: t.ContainerID,
					ExitCode: t.ExitCode, Signal: t.Signal, Reason: t.Reason, Message: t.Message})
			}
		}
		w, t := c.waiting(), c.status.LastTerminationState.Terminated
		if w == nil || t == nil {
			continue
		}
		if m := pauseWords.FindStringSubmatch(w.Message); m != nil {
			if d, err := time.ParseDuration(m[1]); err == nil {
				put(t.FinishedAt.Time, "kubelet", journal.BackingOff{Container: c.spec.Name, What: w.Reason,
					Delay: journal.Took(d), Until: t.FinishedAt.Add(d), Message: w.Message})
			}
		}
	}
}

// pauseWords are the kubelet's for a container that it does not start yet.
var pauseWords = regexp.MustCompile(`^back-off (\S+) restarting failed container`)

// isSuperseded tells whether what happened later shows that a failure is past: a volume or sandbox
// of a Pod whose containers are made, a scheduler's refusal of one that has a node.
func isSuperseded(in In, e journal.Entry) bool {
	p := in.Pod
	switch e.Fact.(type) {
	case journal.Called:
		c := pod.Condition(p, corev1.PodReadyToStartContainers)
		return len(p.Status.PodIPs) > 0 || c != nil && c.Status == corev1.ConditionTrue
	case journal.VolumeWaiting:
		return containersStarted(in, e.At)
	}
	return false
}

// containersStarted tells whether the kubelet has come to a Pod's containers after a time: it does
// so when all volumes are there.
func containersStarted(in In, after time.Time) bool {
	for i := range in.Events {
		x := &in.Events[i]
		if slices.Contains([]string{"Pulling", "Pulled", "Created", "Started"}, x.Reason) && eventTime(x).After(after) {
			return true
		}
	}
	return false
}

// EventsOfNewest are the events of the Pod that had a name last: those of its UID.
func EventsOfNewest(events []corev1.Event) []corev1.Event {
	var last *corev1.Event
	for i := range events {
		if last == nil || eventTime(&events[i]).After(eventTime(last)) {
			last = &events[i]
		}
	}
	var out []corev1.Event
	for i := range events {
		if events[i].InvolvedObject.UID == last.InvolvedObject.UID {
			out = append(out, events[i])
		}
	}
	return out
}

// RecordsRemoval tells whether entries say who removed a Pod: the scheduler or a controller.
func RecordsRemoval(entries []journal.Entry) bool {
	return slices.ContainsFunc(entries, func(e journal.Entry) bool {
		switch e.Fact.(type) {
		case journal.Preempted, journal.Acted:
			return true
		}
		return false
	})
}
