package trace

import (
	"sort"
	"time"

	"github.com/gantry-project/gantry/internal/journal"
)

// StartPhase is the time between two milestones, and the parts of it that were spent in calls and
// in init containers.
type StartPhase struct {
	Name string        `json:"name"`
	Took time.Duration `json:"tookNanoseconds"`
	// time in CRI, CSI, CNI and device calls and image pulls, overlaps counted once
	Calls time.Duration `json:"callsNanoseconds"`
	// time in which init containers ran and no such call did
	Init time.Duration `json:"initNanoseconds,omitempty"`
}

// Own returns the time spent neither in calls nor in init containers.
func (s StartPhase) Own() time.Duration { return s.Took - s.Calls - s.Init }

type startMilestone struct {
	name string
	is   func(journal.Fact) bool
}

var milestones = []startMilestone{
	{"created", func(f journal.Fact) bool {
		w, ok := f.(journal.Written)
		return ok && w.Verb == "create" && w.Subresource == ""
	}},
	{"bound", is[journal.Bound]},
	{"running", phase("Running")},
	{"ready", condition("Ready", "True")},
	{"finished", phase("Succeeded", "Failed")},
	{"deletion asked", is[journal.Deleting]},
	{"removed", is[journal.Removed]},
}

func startBreakdown(entries []journal.Entry) []StartPhase {
	var out []StartPhase
	from, since := "", time.Time{}
	for _, m := range milestones {
		for _, e := range entries {
			if !m.is(e.Fact) || e.At.Before(since) {
				continue
			}
			// The time between finished or ready and a deletion is the Pod's run, not latency.
			if from != "" && m.name != "deletion asked" && m.name != "finished" {
				calls := covered(callSpans(entries), since, e.At)
				both := covered(append(initSpans(entries), callSpans(entries)...), since, e.At)
				out = append(out, StartPhase{Name: from + " → " + m.name, Took: e.At.Sub(since), Calls: calls,
					Init: both - calls})
			}
			from, since = m.name, e.At
			break
		}
	}
	return out
}

// InCalls returns the time between from and to spent in calls to the runtime, drivers and image
// pulls, overlaps counted once.
func (l PodTrace) InCalls(from, to time.Time) time.Duration {
	return covered(callSpans(l.Entries), from, to)
}

// InStore returns the time between from and to spent in the store and in no such call, for writes
// that leads selects: those on which later steps depend.
func (l PodTrace) InStore(from, to time.Time, leads func(journal.Fact) bool) time.Duration {
	all := callSpans(l.Entries)
	calls := covered(all, from, to)
	for _, e := range l.Entries {
		var took journal.Took
		switch f := e.Fact.(type) {
		case journal.Written:
			took = f.Stored
		case journal.Removed:
			took = f.Stored
		}
		if took > 0 && leads(e.Fact) {
			all = append(all, interval{e.At.Add(-time.Duration(took)), e.At})
		}
	}
	return covered(all, from, to) - calls
}

// interval is a time with start and end.
type interval struct{ from, to time.Time }

func callSpans(entries []journal.Entry) []interval {
	var out []interval
	for _, e := range entries {
		switch f := e.Fact.(type) {
		case journal.Called, journal.Pulled, journal.Waited: // it waited for calls of other Pods
			out = append(out, interval{e.At.Add(-time.Duration(tookOf(f))), e.At})
		}
	}
	return out
}

// initSpans returns the runs of init containers, from start to exit.
func initSpans(entries []journal.Entry) []interval {
	var out []interval
	started := map[string]time.Time{}
	for _, e := range entries {
		switch f := e.Fact.(type) {
		case journal.ContainerStarted:
			if f.Init {
				started[f.Container] = e.At
			}
		case journal.ContainerExited:
			if at, ok := started[f.Container]; ok {
				out = append(out, interval{at, e.At})
				delete(started, f.Container)
			}
		}
	}
	return out
}

// covered returns how much of the time between from and to at least one interval covers.
func covered(all []interval, from, to time.Time) time.Duration {
	sort.Slice(all, func(i, j int) bool { return all[i].from.Before(all[j].from) })
	var sum time.Duration
	at := from
	for _, s := range all {
		begin, end := s.from, s.to
		if begin.Before(at) {
			begin = at
		}
		if end.After(to) {
			end = to
		}
		if end.After(begin) {
			sum += end.Sub(begin)
			at = end
		}
	}
	return sum
}
