package packet

import (
	"fmt"
	"io"
	"strings"
)

// WriteText prints the trace for people.
func (w Result) WriteText(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s from %s to %s\n\n", w.Protocol, w.From, w.To)
	last := ""
	for _, s := range w.Steps {
		if s.Endpoint != last && s.Endpoint != "" {
			fmt.Fprintf(&b, "  to %s\n", s.Endpoint)
		}
		last = s.Endpoint
		indent := "  "
		if s.Endpoint != "" {
			indent = "    "
		}
		fmt.Fprintf(&b, "%s%s %-9s %s\n", indent, map[State]string{OK: "✓", Failed: "✗", Uncertain: "?"}[s.State],
			s.Name, s.Text)
	}
	fmt.Fprintf(&b, "\n%s", w.Outcome)
	if w.Reason != "" {
		fmt.Fprintf(&b, " (%s)", w.Reason)
	}
	fmt.Fprintf(&b, ": %s\n", w.Cause)
	if len(w.Fixes) > 0 {
		b.WriteString("\nWhat you can do:\n")
	}
	for _, f := range w.Fixes {
		fmt.Fprintf(&b, "  → %s\n", f.Description)
		if f.Run != "" {
			fmt.Fprintf(&b, "      $ %s\n", f.Run)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
