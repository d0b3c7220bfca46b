package trace

import (
	"time"

	"github.com/gantry-project/gantry/internal/journal"
)

// Share is a stretch between two milestones and what of it was spent in calls to the runtime, drivers and image pulls.
type Share struct {
	Name  string        `json:"name"`
	Took  time.Duration `json:"tookNanoseconds"`
	Calls time.Duration `json:"callsNanoseconds"` // wall time in CRI, CSI, CNI and device calls, overlaps counted once
}

// Own is the share of the stretch that was not spent in such calls.
func (s Share) Own() time.Duration { return s.Took - s.Calls }

type milestone struct {
	name string
	is   func(journal.Fact) bool
}

var milestones = []milestone{
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

func shares(entries []journal.Entry) []Share {
	var out []Share
	from, since := "", time.Time{}
	for _, m := range milestones {
		for _, e := range entries {
			if !m.is(e.Fact) || e.At.Before(since) {
				continue
			}
			// Between finished or ready and a deletion lies the Pod's own time, which is nobody's latency.
			if from != "" && m.name != "deletion asked" && m.name != "finished" {
				out = append(out, Share{Name: from + " → " + m.name, Took: e.At.Sub(since), Calls: callTime(entries, since, e.At)})
			}
			from, since = m.name, e.At
			break
		}
	}
	return out
}

// callTime adds up the wall time between from and to during which at least one call was under way.
func callTime(entries []journal.Entry, from, to time.Time) time.Duration {
	var sum time.Duration
	covered := from
	for _, e := range entries {
		c, ok := e.Fact.(journal.Called)
		if !ok {
			continue
		}
		start, end := e.At.Add(-time.Duration(c.Took)), e.At
		if start.Before(covered) {
			start = covered
		}
		if end.After(to) {
			end = to
		}
		if end.After(start) {
			sum += end.Sub(start)
			covered = end
		}
	}
	return sum
}
