package pods

import (
	"fmt"
	"math"
	"slices"

	"github.com/gantry-project/gantry/test/replay"
)

// eventSummary is an Event with its last count.
type eventSummary struct {
	reason, kind, message, object, source, component string
	count, t                                         float64
}

func (h eventSummary) name() string {
	return fmt.Sprintf("%s %s of %s by %s", h.kind, h.reason, h.object, h.source)
}

// eventSummaries folds lines into Events by first appearance, with the last count.
func eventSummaries(lines []map[string]any) []eventSummary {
	text := func(v any) string {
		if v == nil {
			return ""
		}
		return fmt.Sprint(v)
	}
	var out []eventSummary
	for _, l := range lines {
		h := eventSummary{
			reason: text(l["reason"]), kind: text(l["type"]), message: text(l["message"]), object: text(l["object"]),
			source:    text(l["source"]),
			component: text(l["fieldPath"]) + text(l["action"]),
		}
		h.count, _ = l["count"].(float64)
		h.t, _ = l["t"].(float64)
		if n, ok := l["seriesCount"].(float64); ok {
			h.count = n
		}
		i := slices.IndexFunc(out, func(x eventSummary) bool {
			x.count, x.t = h.count, h.t
			return x == h
		})
		if i >= 0 {
			out[i].count = max(out[i].count, h.count)
			continue
		}
		out = append(out, h)
	}
	return out
}

// eventsDiffer compares Events as a set, and in order of first appearance per source and object
// where upstream repeats its order.
func eventsDiffer(wantLines, gotLines []map[string]any, ordered bool) []replay.Difference {
	want, got := eventSummaries(wantLines), eventSummaries(gotLines)
	partner := make([]int, len(want))
	taken := make([]bool, len(got))
	pair := func(same func(w, g eventSummary) bool) {
		for i, w := range want {
			if partner[i] >= 0 {
				continue
			}
			for j, g := range got {
				if !taken[j] && same(w, g) {
					partner[i], taken[j] = j, true
					break
				}
			}
		}
	}
	for i := range partner {
		partner[i] = -1
	}
	kin := func(w, g eventSummary) bool {
		return w.kind == g.kind && w.reason == g.reason && w.source == g.source && replay.Match(w.object, g.object)
	}
	pair(func(w, g eventSummary) bool {
		return kin(w, g) && w.component == g.component && replay.Match(w.message, g.message)
	})
	pair(func(w, g eventSummary) bool { return kin(w, g) && w.component == g.component })
	pair(kin)
	// One line of the recording stands for all Events that differ in made-up names alone.
	for j, g := range got {
		taken[j] = taken[j] || slices.ContainsFunc(want, func(w eventSummary) bool {
			return kin(w, g) && w.component == g.component && replay.Match(w.message, g.message)
		})
	}
	var out []replay.Difference
	for i, w := range want {
		if partner[i] < 0 {
			out = append(out, replay.Difference{Path: "events " + w.name(), Want: w.message, Got: "no such event"})
			continue
		}
		mine := got[partner[i]]
		for _, g := range got { // the same Event of other made-up names: the recording folds them into one
			if kin(w, g) && w.component == g.component && replay.Match(w.message, g.message) {
				mine.count = max(mine.count, g.count)
			}
		}
		out = append(out, eventDiffers(w, mine)...)
	}
	for j, g := range got {
		if !taken[j] {
			out = append(out, replay.Difference{Path: "events " + g.name(), Want: "no such event", Got: g.message})
		}
	}
	if ordered {
		out = append(out, orderDiffers(want, partner)...)
	}
	return out
}

func eventDiffers(w, g eventSummary) []replay.Difference {
	var out []replay.Difference
	if !replay.Match(w.message, g.message) {
		out = append(out, replay.Difference{Path: "events " + w.name() + " message", Want: w.message, Got: g.message})
	}
	if w.component != g.component {
		out = append(out, replay.Difference{Path: "events " + w.name() + " fieldPath", Want: w.component,
			Got: g.component})
	}
	// Repeats that go with time (back-off, probes) depend on when the case ended.
	if math.Abs(w.count-g.count) > max(1, w.count/3) {
		out = append(out, replay.Difference{Path: "events " + w.name() + " count", Want: fmt.Sprint(w.count),
			Got: fmt.Sprint(g.count)})
	}
	return out
}

// orderDiffers names the first Event that came before one which upstream sent clearly earlier, of
// the same source and object and, where both have one, the same container: containers live side by
// side.
func orderDiffers(want []eventSummary, partner []int) []replay.Difference {
	for j, late := range want {
		for i, early := range want[:j] {
			if partner[i] < 0 || partner[j] < 0 || partner[i] < partner[j] || late.t-early.t < 0.2 {
				continue
			}
			if early.source == late.source && early.object == late.object &&
				(early.component == late.component || early.component == "" || late.component == "") {
				return []replay.Difference{{Path: "events " + late.name() + " order", Want: "after " + early.reason,
					Got: "before it"}}
			}
		}
	}
	return nil
}
