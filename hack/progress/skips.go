package main

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
)

// skips has the tests that were skipped on this machine, by the reason that they gave.
type skips map[string][]string

// reasonLine is what testing prints of t.Skip: file and line, then the reason.
var reasonLine = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)`)

func (s skips) add(e event, said []string) {
	reason := ""
	for _, l := range said {
		if m := reasonLine.FindStringSubmatch(l); m != nil {
			reason = strings.TrimSpace(m[1])
		}
	}
	reason = cmp.Or(reason, "no reason given")
	s[reason] = append(s[reason], path.Base(e.Package)+"."+e.Test)
}

// print tells each reason with how many tests gave it, and names the first three.
func (s skips) print(out io.Writer) {
	if len(s) == 0 {
		return
	}
	var reasons []string
	for r := range s {
		reasons = append(reasons, r)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(s[b]), len(s[a])), cmp.Compare(a, b))
	})
	fmt.Fprintln(out, "skipped on this machine:")
	for _, r := range reasons {
		names, more := s[r], ""
		if len(names) > 3 {
			more = fmt.Sprintf(" and %d more", len(names)-3)
		}
		fmt.Fprintf(out, "  %s: %s%s\n", r, strings.Join(names[:min(3, len(names))], ", "), more)
	}
}
