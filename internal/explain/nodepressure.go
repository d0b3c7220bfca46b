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
// or about one of its Pods. Unasked it adds of thresholds that are not near the first alone, to the
// answer about a node, and nothing to the answer about a Pod that would not be among the first to
// go.
func WithNodePressure(a *Answer, ask PressureAsk, f *nodepressure.EvictionForecast) {
	add := withPressureOfNode
	if ask.Kind == "pod" {
		add = withPressureOfPod
	}
	for _, m := range f.Margins {
		if m.Near || ask.Asked {
			add(a, ask, f, m)
		}
	}
	if ask.Kind == "node" && len(f.Margins) > 0 && !ask.Asked && !f.Margins[0].Near {
		a.Facts = append(a.Facts, "no eviction is near; the nearest threshold: "+f.Margins[0].Text())
	}
	if ask.Kind == "node" && len(f.Margins) > 0 && (ask.Asked || f.Margins[0].Near) {
		a.Fixes = append(a.Fixes, commandFix("see the order of all Pods and try changes",
			"gantry simulate eviction --node "+ask.Name))
	}
}

func withPressureOfPod(a *Answer, ask PressureAsk, f *nodepressure.EvictionForecast, m nodepressure.Margin) {
	x, goes := f.Of(ask.Namespace+"/"+ask.Name, m)
	switch {
	case goes:
		a.Facts = append(a.Facts, nextText(x, m))
		a.Fixes = append(a.Fixes, savingFixes(x)...)
	case ask.Asked && len(f.For(m)) > 0:
		a.Facts = append(a.Facts, "it would not be evicted for "+m.Signal)
	}
}

func withPressureOfNode(a *Answer, ask PressureAsk, f *nodepressure.EvictionForecast, m nodepressure.Margin) {
	a.Facts = append(a.Facts, m.Text())
	for i, x := range f.For(m) {
		if i == 3 && !ask.Asked {
			break
		}
		a.Facts = append(a.Facts, x.Pod+" "+nextText(x, m))
	}
}

// nextText says when a Pod goes and why.
func nextText(x nodepressure.Next, m nodepressure.Margin) string {
	s := fmt.Sprintf("would be evicted %s for %s, at %s less (threshold %s): %s", ordinal(x.Place), m.Signal,
		nodepressure.Amount(m.Signal, x.At), nodepressure.Amount(m.Signal, m.Threshold), x.Why)
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
