package trace

import (
	"sort"
	"time"

	"github.com/gantry-project/gantry/internal/journal"
)

// Span is a named interval, with the spans inside of it.
type Span struct {
	Name     string            `json:"name"`
	By       string            `json:"by,omitempty"`
	Start    time.Time         `json:"start"`
	End      time.Time         `json:"end"`
	Error    string            `json:"error,omitempty"`
	Note     string            `json:"note,omitempty"`
	Attrs    map[string]string `json:"attributes,omitempty"`
	Children []Span            `json:"children,omitempty"`
	Open     bool              `json:"open,omitempty"` // not ended; End is the newest entry's time
}

// Took returns the span's duration.
func (s Span) Took() time.Duration { return s.End.Sub(s.Start) }

// spanStage is a stage of a Pod's life: it starts with the first entry that open selects and ends
// with the first later one that shut selects.
type spanStage struct {
	name          string
	opens, closes func(journal.Fact) bool
}

func is[F journal.Fact](f journal.Fact) bool { _, ok := f.(F); return ok }

func condition(typ, status string) func(journal.Fact) bool {
	return func(f journal.Fact) bool {
		c, ok := f.(journal.ConditionChanged)
		return ok && c.Type == typ && c.Status == status
	}
}

func phase(names ...string) func(journal.Fact) bool {
	return func(f journal.Fact) bool {
		p, ok := f.(journal.PhaseChanged)
		for _, n := range names {
			if ok && p.Phase == n {
				return true
			}
		}
		return false
	}
}

func either(fs ...func(journal.Fact) bool) func(journal.Fact) bool {
	return func(f journal.Fact) bool {
		for _, is := range fs {
			if is(f) {
				return true
			}
		}
		return false
	}
}

// stages are the stages of a Pod's life, in order; one row each.
var stages = []spanStage{
	{"waiting and judged", is[journal.Queued], either(is[journal.Bound], is[journal.Removed])},
	{"starting", is[journal.Accepted], either(phase("Running", "Succeeded", "Failed"), is[journal.Refused],
		is[journal.Released])},
	{"becoming ready", phase("Running"), either(condition("Ready", "True"), phase("Succeeded", "Failed"),
		is[journal.Killing], is[journal.Released])},
	{"ending", is[journal.Deleting], is[journal.Removed]},
}

func spans(entries []journal.Entry) []Span {
	if len(entries) == 0 {
		return nil
	}
	last := entries[len(entries)-1].At
	root := Span{Name: "life", Start: entries[0].At, End: last, Open: true}
	outer := make([]Span, 0, len(stages))
	for _, st := range stages {
		if s, ok := stageSpan(st, entries, last); ok {
			outer = append(outer, s)
		}
	}
	for _, e := range entries {
		if _, deleted := e.Fact.(journal.Removed); deleted {
			root.Open = false
		}
		s, ok := callSpan(e)
		if !ok {
			continue
		}
		if s.Start.Before(root.Start) {
			root.Start = s.Start
		}
		if i := innermost(outer, s); i >= 0 {
			outer[i].Children = append(outer[i].Children, s)
		} else {
			root.Children = append(root.Children, s)
		}
	}
	root.Children = append(root.Children, outer...)
	sort.SliceStable(root.Children,
		func(i, j int) bool { return root.Children[i].Start.Before(root.Children[j].Start) })
	return []Span{root}
}

// stageSpan returns the span of a stage; false if no entry starts it.
func stageSpan(st spanStage, entries []journal.Entry, last time.Time) (Span, bool) {
	for i, e := range entries {
		if !st.opens(e.Fact) {
			continue
		}
		s := Span{Name: st.name, Start: e.At, End: last, Open: true}
		for _, later := range entries[i+1:] {
			if st.closes(later.Fact) {
				s.End, s.Open = later.At, false
				break
			}
		}
		return s, true
	}
	return Span{}, false
}

func innermost(outer []Span, s Span) int {
	for i := len(outer) - 1; i >= 0; i-- {
		if !s.End.Before(outer[i].Start) && !s.Start.After(outer[i].End) {
			return i
		}
	}
	return -1
}

// callSpan returns the span of a fact with a duration.
func callSpan(e journal.Entry) (Span, bool) {
	s := Span{By: e.By, Start: startOf(e), End: e.At}
	switch f := e.Fact.(type) {
	case journal.Written:
		s.Name, s.Note = "API "+f.Verb, f.Line()
		if f.Subresource != "" {
			s.Name += " " + f.Subresource
		}
	case journal.Ruled:
		s.Name, s.Note = "scheduling attempt", f.Line()
		s.Children = points(f, s)
	case journal.Called:
		s.Name, s.Error = f.Service+" "+f.Method, f.Error
		if f.Target != "" {
			s.Name += " " + f.Target
		}
	case journal.Waited:
		s.Name = "wait for a turn to " + f.For
	case journal.Pulled:
		s.Name = "image " + f.Image
	case journal.VolumeReady:
		s.Name = "volume " + f.Volume
	case journal.StopStep:
		s.Name, s.Note = "stop "+f.Container+": "+f.Step, f.Message
	default:
		return Span{}, false
	}
	return s, true
}

// pointOrder is the order of extension points in a scheduling cycle.
var pointOrder = []string{"PreFilter", "Filter", "PostFilter", "PreScore", "Score", "NormalizeScore", "Reserve",
	"Permit"}

// points returns spans of a cycle's extension points one after the other: the journal has their
// durations, and a cycle runs them in order.
func points(f journal.Ruled, cycle Span) []Span {
	var out []Span
	at := cycle.Start
	for _, name := range pointOrder {
		took, ok := f.Points[name]
		if !ok {
			continue
		}
		end := at.Add(time.Duration(took))
		out = append(out, Span{Name: name, By: cycle.By, Start: at, End: end})
		at = end
	}
	return out
}
