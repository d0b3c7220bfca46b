package trace

import (
	"time"

	"github.com/gantry-project/gantry/internal/journal"
)

// PodTrace is a Pod's journal, from its first write to its removal.
type PodTrace struct {
	Ref       journal.Ref     `json:"ref"`
	Node      string          `json:"node,omitempty"`
	Start     time.Time       `json:"start"`
	Entries   []journal.Entry `json:"entries"`
	Spans     []Span          `json:"spans"`
	Breakdown []StartPhase    `json:"shares,omitempty"`
	Partial   bool            `json:"partial,omitempty"` // the journal no longer has the creation
}

// PodTraces groups entries of one name by Pod (UID), oldest first. Entries without a UID belong to
// the Pod that existed then.
func PodTraces(entries []journal.Entry) []PodTrace {
	var podTraces []PodTrace
	at := map[string]int{}
	for _, e := range entries {
		uid := e.Ref.UID
		i, known := at[uid]
		switch {
		case uid == "" && len(podTraces) > 0:
			i = len(podTraces) - 1
		case !known:
			i = len(podTraces)
			at[uid] = i
			podTraces = append(podTraces, PodTrace{Ref: e.Ref, Start: e.At})
		}
		podTraces[i].Entries = append(podTraces[i].Entries, e)
	}
	for i := range podTraces {
		podTraces[i].markPartial()
	}
	return podTraces
}

func (l *PodTrace) markPartial() {
	l.Partial = true
	for _, e := range l.Entries {
		switch f := e.Fact.(type) {
		case journal.Written:
			if f.Verb == "create" && f.Subresource == "" {
				l.Partial = false
			}
		case journal.Bound:
			l.Node = f.Node
		}
		if l.Node == "" && e.Node != "" {
			l.Node = e.Node
		}
		if start := startOf(e); start.Before(l.Start) {
			l.Start = start
		}
	}
	l.Spans = spans(l.Entries)
	l.Breakdown = startBreakdown(l.Entries)
}

// startOf returns when what the entry describes began: facts with a duration are put at its end.
func startOf(e journal.Entry) time.Time { return e.At.Add(-time.Duration(tookOf(e.Fact))) }

func tookOf(f journal.Fact) journal.Took {
	switch f := f.(type) {
	case journal.Written:
		return f.Took
	case journal.Ruled:
		return f.Took
	case journal.Called:
		return f.Took
	case journal.Pulled:
		return f.Took
	case journal.VolumeReady:
		return f.Took
	case journal.Probed:
		return f.Took
	case journal.StopStep:
		return f.Took
	case journal.Waited:
		return f.Took
	}
	return 0
}
