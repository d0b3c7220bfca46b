// Package phrase explains a phrase of `kubectl describe`: which component says it, by which rule,
// and what to do.
//
// It knows texts, not objects: for a phrase without its Pod, from a ticket or another cluster.
// `gantry why pod/NAME` says more.
//
// In: a text. Out: its meanings, the outermost first. To add one: a row in the table of its
// component.
package phrase

import (
	"fmt"
	"io"
	"regexp"
	"slices"
)

// Meaning explains one part of a phrase.
type Meaning struct {
	Part      string `json:"part"`      // of the text
	Component string `json:"component"` // which component says it
	Rule      string `json:"rule"`      // by which decision
	Fix       string `json:"fix"`
}

type phraseRule struct{ pattern, component, rule, fix string }

// Lookup returns the meanings of a text in the order of its parts; none if no part is known.
func Lookup(text string) []Meaning {
	type hit struct {
		at int
		m  Meaning
	}
	var hits []hit
	for _, table := range [][]phraseRule{scheduling(), images(), running(), starting(), ending(), writing()} {
		for _, r := range table {
			if at := regexp.MustCompile(`(?i)` + r.pattern).FindStringIndex(text); at != nil {
				hits = append(hits, hit{at[0], Meaning{text[at[0]:at[1]], r.component, r.rule, r.fix}})
			}
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return a.at - b.at })
	out := make([]Meaning, len(hits))
	for i, h := range hits {
		out[i] = h.m
	}
	return out
}

// Write prints meanings for people.
func Write(w io.Writer, list []Meaning) error {
	for _, m := range list {
		if _, err := fmt.Fprintf(w, "%s\n  said by: %s\n  rule:    %s\n  → %s\n", m.Part, m.Component, m.Rule,
			m.Fix); err != nil {
			return err
		}
	}
	return nil
}
