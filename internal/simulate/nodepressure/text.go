package nodepressure

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText prints the passes at which something changed, as the steps of the decision.
func (r *Result) WriteText(w io.Writer) error {
	var b strings.Builder
	var last *Pass
	skipped := 0
	for i := range r.Passes {
		l := &r.Passes[i]
		if last != nil && l.Victim == nil && same(last, l) {
			skipped++
			continue
		}
		if skipped > 0 {
			fmt.Fprintf(&b, "  … %d more like it\n\n", skipped)
		}
		skipped, last = 0, l
		l.write(&b)
	}
	if skipped > 0 {
		fmt.Fprintf(&b, "  … %d more like it\n\n", skipped)
	}
	b.WriteString(r.summary())
	_, err := io.WriteString(w, b.String())
	return err
}

// summary is one line about the victims.
func (r *Result) summary() string {
	list := r.Victims()
	end := time.Duration(0)
	if len(r.Passes) > 0 {
		end = r.Passes[len(r.Passes)-1].At
	}
	if len(list) == 0 {
		return fmt.Sprintf("Nobody is evicted in %s.\n", end)
	}
	var parts []string
	for _, v := range list {
		parts = append(parts, fmt.Sprintf("%s (%s, %s)", v.Pod, v.At, v.Signal))
	}
	return fmt.Sprintf("Evicted in %s: %s.\n", end, strings.Join(parts, ", then "))
}

// same tells whether two passes differ only in time and amounts.
func same(a, b *Pass) bool {
	met := func(l *Pass) (out []string) {
		for _, t := range l.Thresholds {
			if t.Met {
				out = append(out, fmt.Sprint(t.Signal, t.Grace, t.Left == 0, t.Reclaim))
			}
		}
		return out
	}
	return reflect.DeepEqual(met(a), met(b)) && reflect.DeepEqual(a.Conditions, b.Conditions) &&
		a.Fruitless == b.Fruitless && a.Resolved == b.Resolved && reflect.DeepEqual(a.Target, b.Target)
}

func (l *Pass) write(b *strings.Builder) {
	fmt.Fprintf(b, "%s\n  1 signals\n", l.At)
	for _, s := range l.Signals {
		fmt.Fprintf(b, "      %-28s %s of %s available\n", s.Signal, Amount(s.Signal, s.Available), Amount(s.Signal,
			s.Capacity))
	}
	b.WriteString("  2 thresholds\n")
	for _, t := range l.Thresholds {
		fmt.Fprintf(b, "      %-28s %s\n", t.Signal, t.text())
	}
	if len(l.Conditions) > 0 {
		fmt.Fprintf(b, "  3 conditions: %s\n", strings.Join(l.Conditions, ", "))
	} else {
		b.WriteString("  3 conditions: none\n")
	}
	if l.Fruitless != "" {
		fmt.Fprintf(b, "    %s\n", l.Fruitless)
	}
	if l.Target == nil {
		b.WriteString("  4 nothing to act on: no threshold is met for longer than its grace\n\n")
		return
	}
	fmt.Fprintf(b, "  4 acts on %s < %s (resource %s)\n", l.Target.Signal, l.Target.Value, l.Target.Resource)
	l.writeReclaim(b)
	if len(l.Ranked) > 0 {
		b.WriteString("  6 order\n")
		l.writeRanking(b)
	}
	switch {
	case l.Victim != nil:
		fmt.Fprintf(b, "  7 evicts %s, which gets %s to end\n      %s\n", l.Victim.Pod, l.Victim.Grace,
			strings.TrimSpace(l.Victim.Message))
	case !l.Resolved:
		b.WriteString("  7 evicts nobody: none of them may go\n")
	}
	b.WriteByte('\n')
}

// text is a threshold in words.
func (t ThresholdLine) text() string {
	kind := "hard"
	if t.Grace > 0 {
		kind = "soft, grace " + t.Grace.String()
	}
	s := fmt.Sprintf("< %s", t.Value)
	if strings.HasSuffix(t.Value, "%") {
		s += " (" + Amount(t.Signal, t.Amount) + ")"
	}
	if t.Wants > 0 {
		kind += ", frees until " + Amount(t.Signal, t.Wants)
	}
	s += " (" + kind + "): "
	switch {
	case !t.Met:
		return s + "not met"
	case t.Reclaim:
		return s + "met until the minimum reclaim is there"
	case t.Left > 0:
		return s + fmt.Sprintf("met for %s, %s of the grace left", t.Since, t.Left)
	}
	return s + fmt.Sprintf("met for %s", t.Since)
}

func (l *Pass) writeReclaim(b *strings.Builder) {
	if len(l.Reclaimed) == 0 {
		b.WriteString("  5 nothing of it can be reclaimed without a Pod\n")
		return
	}
	var parts []string
	for _, x := range l.Reclaimed {
		parts = append(parts, fmt.Sprintf("%s (%s)", x.What, size(x.Bytes)))
	}
	end := "not enough"
	if l.Resolved {
		end = "enough, no Pod goes"
	}
	fmt.Fprintf(b, "  5 reclaims %s: %s\n", strings.Join(parts, ", "), end)
}

func (l *Pass) writeRanking(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "      #\tPOD\tQOS\tPRIORITY\tUSE\tREQUEST\tWHY HERE\n")
	for _, p := range l.Ranked {
		use := Amount(l.Target.Signal, p.Use)
		if !p.Measured {
			use = "not known"
		}
		fmt.Fprintf(t, "      %d\t%s\t%s\t%d\t%s\t%s\t%s\n", p.Place, p.Pod, p.QOS, p.Priority, use,
			Amount(l.Target.Signal, p.Request),
			p.Why)
	}
	_ = t.Flush() // a strings.Builder does not fail
}

// WriteText prints how far the thresholds are, who would go and what would save those.
func (f *EvictionForecast) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, m := range f.Margins {
		fmt.Fprintf(&b, "%s\n", m.Text())
	}
	for _, x := range f.Next {
		if x.Place == 1 {
			fmt.Fprintf(&b, "for %s:\n", x.Signal)
		}
		fmt.Fprintf(&b, "  %d. %s\n", x.Place, x.Text())
	}
	if len(f.Next) == 0 {
		b.WriteString("Nobody would go.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Text is how far a threshold is away.
func (m Margin) Text() string {
	kind := "hard"
	if m.Grace > 0 {
		kind = "soft, grace " + m.Grace.String()
	}
	if m.Left == 0 {
		return fmt.Sprintf("%s: %s of %s available, threshold %s (%s): met", m.Signal, Amount(m.Signal, m.Available),
			Amount(m.Signal, m.Capacity), Amount(m.Signal, m.Threshold), kind)
	}
	return fmt.Sprintf("%s: %s of %s available, threshold %s (%s): met at %s less", m.Signal, Amount(m.Signal,
		m.Available),
		Amount(m.Signal, m.Capacity), Amount(m.Signal, m.Threshold), kind, Amount(m.Signal, m.Left))
}

// Text is who goes at how much, and what would save it.
func (x Next) Text() string {
	s := fmt.Sprintf("%s at %s less: takes %s; %s", x.Pod, Amount(x.Signal, x.At), Amount(x.Signal, x.Use), x.Why)
	for _, saving := range x.Saving {
		s += "; " + saving.Text()
	}
	return s
}

// Text is what a change would do.
func (s Saving) Text() string { return fmt.Sprintf("%s would put it behind %s", s.Change, s.Behind) }
