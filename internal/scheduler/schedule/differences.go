package schedule

import (
	"fmt"
	"reflect"
)

// Differences says in which points two Results for one Pod differ: choice, sample, reasons with
// their numbers, scores; none when they are equal. It reads both at length, for tests and for the
// shadow check.
func Differences(a, b *Result) []string {
	var out []string
	differ := func(what string, x, y any) {
		if !reflect.DeepEqual(x, y) {
			out = append(out, fmt.Sprintf("%s: %v, other %v", what, x, y))
		}
	}
	differ("winner", a.SuggestedHost, b.SuggestedHost)
	differ("runner-up", a.RunnerUp, b.RunnerUp)
	differ("lead", a.Lead, b.Lead)
	differ("ties", a.TopScoredNodes, b.TopScoredNodes)
	differ("visited", a.EvaluatedNodes, b.EvaluatedNodes)
	differ("feasible", a.Feasible(), b.Feasible())
	differ("message", a.Message(), b.Message())
	differ("rejectors", a.UnschedulablePlugins, b.UnschedulablePlugins)
	differ("pending", a.PendingPlugins, b.PendingPlugins)
	all := max(a.countRefused(), b.countRefused())
	differ("refusals", a.Refusals(all), b.Refusals(all))
	nodes := max(a.Nodes(), b.Nodes())
	differ("scores", a.Scores(nodes), b.Scores(nodes))
	return out
}
