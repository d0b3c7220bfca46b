package forecast

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteText prints the forecast for a person.
func (f *Forecast) WriteText(w io.Writer) error {
	var b strings.Builder
	b.WriteString(f.Sentence() + "\n")
	f.writeLoads(&b)
	f.writePods(&b)
	f.writeCapacity(&b)
	f.writeTroubles(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTroubles tells what is held up, what does not become ready, with what helps, and the notes.
func (f *Forecast) writeTroubles(b *strings.Builder) {
	f.writeBlocked(b)
	f.writePending(b)
	for _, n := range f.Notes {
		fmt.Fprintf(b, "note: %s\n", n)
	}
}

// Sentence says what is done when and, of a rollout, in a second line, how many Pods are ready at
// least.
func (f *Forecast) Sentence() string {
	s := fmt.Sprintf("%s %s: %s", f.Verb, strings.Join(f.Target, " "), f.Outcome.sentence())
	if l := f.Outcome.Least; l != nil && len(f.Capacity) > 0 {
		s += fmt.Sprintf("\nready Pods: at least %d of %d", *l, f.Capacity[0].Desired)
	}
	return s
}

func (o Outcome) sentence() string {
	var s string
	if o.Done {
		s = "done after " + seconds(o.Took)
	} else {
		s = "not done within " + seconds(o.Until)
		if o.Why != "" {
			s += ": " + o.Why
		}
	}
	switch {
	case o.Seeds > 1 && o.Undone == o.Seeds:
		s += fmt.Sprintf("; nor was it in any of %d runs", o.Seeds)
	case o.Seeds > 1:
		s += fmt.Sprintf("; of %d runs the fastest took %s, the median %s, the 99th percentile %s", o.Seeds,
			seconds(o.Fastest), seconds(o.Median), seconds(o.P99))
		if o.Undone > 0 {
			s += fmt.Sprintf(", and %d were not done", o.Undone)
		}
	}
	return s
}

func (f *Forecast) writePods(b *strings.Builder) {
	if len(f.Pods) == 0 {
		b.WriteString("no Pod comes, goes or moves\n")
		return
	}
	t := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\nPOD\tNODE\tCREATED\tSCHEDULED\tREADY\tLEAVES\tGONE\tBY\tREPLACES")
	for _, p := range f.Pods {
		created := optional(p.Created)
		if p.Created == nil {
			created = "before"
		}
		node := p.Node
		if node == "" {
			node = "none"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Key(), node, created, optional(p.Scheduled),
			optional(p.Ready), optional(p.Leaves), optional(p.Gone), dash(p.Cause), dash(p.Replaces))
	}
	_ = t.Flush() // a strings.Builder takes all
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (f *Forecast) writeCapacity(b *strings.Builder) {
	if len(f.Capacity) == 0 {
		return
	}
	t := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\nFROM\tPODS\tREADY\tNEW\tNEW READY\tLEAVING")
	for _, m := range f.Capacity {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\n", seconds(m.At), m.Total, m.Ready, m.New, m.NewReady, m.Leaving)
	}
	_ = t.Flush()
}

func (f *Forecast) writeBlocked(b *strings.Builder) {
	for i, x := range f.Blocked {
		if i == 0 {
			b.WriteString("\nheld up by budgets:\n")
		}
		until := "to the end"
		if x.Until != nil {
			until = "until " + seconds(*x.Until)
		}
		fmt.Fprintf(b, "  %s from %s %s: %s\n", x.Pod, seconds(x.From), until, x.Message)
	}
}

// mostTogether is how many of the Pods that lack the same are named.
const mostTogether = 3

// writePending tells what does not become ready: what lacks the same for the same reason together.
func (f *Forecast) writePending(b *strings.Builder) {
	told := make([]bool, len(f.Pending))
	for i, p := range f.Pending {
		if i == 0 {
			b.WriteString("\ndoes not become ready:\n")
		}
		if told[i] {
			continue
		}
		var names []string
		for j, other := range f.Pending[i:] {
			if other.Cause == p.Cause && slices.Equal(other.Fixes, p.Fixes) {
				names, told[i+j] = append(names, cmp.Or(other.Pod, other.Object)), true
			}
		}
		more := ""
		if n := len(names) - mostTogether; n > 0 {
			names, more = names[:mostTogether], fmt.Sprintf(" and %d more", n)
		}
		fmt.Fprintf(b, "  %s%s: %s\n", strings.Join(names, ", "), more, p.Cause)
		for _, fix := range p.Fixes {
			fmt.Fprintf(b, "      → %s\n", fix)
		}
	}
}
