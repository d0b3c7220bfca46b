package explain

import (
	"fmt"

	"github.com/gantry-project/gantry/internal/simulate/nodepressure"
)

// PressureAsk is what is asked about evictions of a node or of a running Pod.
type PressureAsk struct {
	Kind, Namespace, Name string // pod or node
	Asked                 bool   // whoever asks wants to know it, near or not
}

// WithNodePressure adds how far a node is from evictions, and who would go, to an answer about it
// or
// about one of its Pods. Unasked it adds nothing while no threshold is near, nor to the answer
// about
// a Pod that would not be among the first to go.
func WithNodePressure(a *Answer, ask PressureAsk, f *nodepressure.Foresight) {
	if len(f.Margins) == 0 || !ask.Asked && !f.Margins[0].Near {
		return
	}
	nearest := f.Margins[0]
	if ask.Kind == "pod" {
		place, next := f.Of(ask.Namespace + "/" + ask.Name)
		switch {
		case place > 0:
			a.Facts = append(a.Facts, nextText(place, next, nearest))
			a.Fixes = append(a.Fixes, savingFixes(next)...)
		case ask.Asked:
			a.Facts = append(a.Facts, fmt.Sprintf("it would not be evicted for %s: %d other Pods would go, or nobody",
				nearest.Signal, len(f.Next)))
		}
		return
	}
	for _, m := range f.Margins {
		if m.Near || ask.Asked {
			a.Facts = append(a.Facts, m.Text())
		}
	}
	for i, x := range f.Next {
		if i == 3 && !ask.Asked {
			break
		}
		a.Facts = append(a.Facts, x.Pod+" "+nextText(i+1, x, nearest))
	}
	if len(f.Next) == 0 {
		a.Facts = append(a.Facts, "nobody would be evicted: all its Pods are critical, or there are none")
	}
	a.Fixes = append(a.Fixes, commandFix("see the order of all Pods and try changes",
		"gantry simulate eviction --node "+ask.Name))
}

// nextText says when a Pod goes and why.
func nextText(place int, x nodepressure.Next, m nodepressure.Margin) string {
	s := fmt.Sprintf("would be evicted %s for %s, at %s less (threshold %s): %s", ordinal(place), m.Signal,
		mib(uint64(x.At)), mib(uint64(m.Threshold)), x.Why)
	for _, saving := range x.Saving {
		s += "; " + saving.Text()
	}
	return s
}

func savingFixes(x nodepressure.Next) []Fix {
	var out []Fix
	for _, s := range x.Saving {
		out = append(out, Fix{Description: s.Text()})
	}
	return out
}

func ordinal(n int) string {
	if names := []string{"first", "second", "third"}; n <= len(names) {
		return names[n-1]
	}
	return fmt.Sprintf("as number %d", n)
}
