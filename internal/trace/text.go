package trace

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// WriteTimeline prints one line per entry, times relative to the first.
func (l PodTrace) WriteTimeline(w io.Writer) error {
	var b strings.Builder
	l.writeHeader(&b)
	for _, e := range l.Entries {
		fmt.Fprintf(&b, "%10s  %-11s %s\n", offset(e.At.Sub(l.Start)), e.By, e.Fact.Line())
	}
	if len(l.Breakdown) > 0 {
		b.WriteString("\nwhere the time went\n")
		for _, s := range l.Breakdown {
			fmt.Fprintf(&b, "  %-28s %10s", s.Name, round(s.Took))
			if s.Calls > 0 {
				fmt.Fprintf(&b, "   calls %s, ", round(s.Calls))
				if s.Init > 0 {
					fmt.Fprintf(&b, "init containers %s, ", round(s.Init))
				}
				fmt.Fprintf(&b, "own %s", round(s.Own()))
			}
			b.WriteByte('\n')
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteTree prints the spans as a tree with their durations.
func (l PodTrace) WriteTree(w io.Writer) error {
	var b strings.Builder
	l.writeHeader(&b)
	for _, s := range l.Spans {
		l.writeBranch(&b, s, "", "")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (l PodTrace) writeHeader(b *strings.Builder) {
	fmt.Fprintf(b, "pod/%s in %s", l.Ref.Name, l.Ref.Namespace)
	if l.Ref.UID != "" {
		fmt.Fprintf(b, ", uid %s", l.Ref.UID)
	}
	if l.Node != "" {
		fmt.Fprintf(b, ", node %s", l.Node)
	}
	fmt.Fprintf(b, ", from %s\n", l.Start.Format("2006-01-02 15:04:05.000 MST"))
	if l.Partial {
		b.WriteString("(the journal no longer holds this Pod's beginning)\n")
	}
}

func (l PodTrace) writeBranch(b *strings.Builder, s Span, first, rest string) {
	open := ""
	if s.Open {
		open = " (still open)"
	}
	fmt.Fprintf(b, "%10s  %s%s  %s%s", offset(s.Start.Sub(l.Start)), first, s.Name, round(s.Took()), open)
	if s.Error != "" {
		fmt.Fprintf(b, "  error: %s", s.Error)
	}
	b.WriteByte('\n')
	for i, c := range s.Children {
		if i == len(s.Children)-1 {
			l.writeBranch(b, c, rest+"└ ", rest+"  ")
		} else {
			l.writeBranch(b, c, rest+"├ ", rest+"│ ")
		}
	}
}

// offset formats the time since the start with milliseconds.
func offset(d time.Duration) string { return fmt.Sprintf("+%.3fs", d.Seconds()) }

// round rounds a duration to about three digits.
func round(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond)
	default:
		return d.Round(time.Microsecond)
	}
}
