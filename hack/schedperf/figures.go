package main

import (
	"fmt"
	"strings"

	"github.com/gantry-project/gantry/hack/bench/result"
)

// ours is how figures name Gantry's scheduler; any other one is "other".
const ours = "gantry"

// figures returns the figures of rows, named SCHEDULER/CASE, N nodes/QUANTITY; latency is the
// quantity of p50 and p99. Turns of a case are combined: the rate is all Pods over all CPU time,
// other figures are those of the best turn, since other load only makes them worse.
func figures(rows []row, latency string) (all []result.Figure) {
	var order []string
	turns := map[string][]row{}
	for _, r := range rows {
		who := ours
		if r.Scheduler != "" && r.Scheduler != ours {
			who = "other"
		}
		name := fmt.Sprintf("%s/%s, %d nodes", who, r.Case, r.Nodes)
		if turns[name] == nil {
			order = append(order, name)
		}
		turns[name] = append(turns[name], r)
	}
	for _, name := range order {
		all = append(all, figuresOf(name, latency, turns[name])...)
	}
	return all
}

// figuresOf are those of one scheduler's turns of a case.
func figuresOf(name, latency string, turns []row) []result.Figure {
	best, counted, cpu := turns[0], 0.0, 0.0
	var notes []string
	for n, r := range turns {
		counted, cpu = counted+r.PerCore*r.CPU, cpu+r.CPU
		best.Min, best.P50, best.P99 = min(best.Min, r.Min), min(best.P50, r.P50), min(best.P99, r.P99)
		best.PerSecond, best.RSS = max(best.PerSecond, r.PerSecond), max(best.RSS, r.RSS)
		if len(turns) > 1 {
			notes = append(notes, fmt.Sprintf("turn %d: %.0f/s", n+1, r.PerCore))
		}
		if r.Placed < r.Pods {
			notes = append(notes, fmt.Sprintf("%d of %d Pods placed", r.Placed, r.Pods))
		}
	}
	if cpu > 0 {
		best.PerCore = counted / cpu
	}
	rate := result.Value(name+"/Pods per core-second", "/s", best.PerCore)
	if best.Note != "" {
		notes = append(notes, best.Note)
	}
	rate.Note = strings.Join(notes, "; ")
	times := result.Figure{Name: name + "/" + latency, Unit: "ms", Samples: best.Pods}
	if best.Placed > 0 || best.P50 > 0 {
		times.Min = new(result.Round(best.Min))
		times.Median, times.P99 = new(result.Round(best.P50)), new(result.Round(best.P99))
	}
	return []result.Figure{
		rate, result.Value(name+"/Pods", "/s", best.PerSecond), times,
		result.Value(name+"/RSS", "MiB", float64(best.RSS)),
	}
}
