package place

import (
	"fmt"
	"reflect"
)

// Differences says in which points two rulings about one Pod differ: choice, sample, reasons with their numbers, scores; none when they are equal. It reads both at
// length, for tests and for the shadow check.
func Differences(a, b *Ruling) []string {
	var out []string
	differ := func(what string, x, y any) {
		if !reflect.DeepEqual(x, y) {
			out = append(out, fmt.Sprintf("%s: %v, other %v", what, x, y))
		}
	}
	differ("winner", a.Winner, b.Winner)
	differ("runner-up", a.RunnerUp, b.RunnerUp)
	differ("lead", a.Lead, b.Lead)
	differ("ties", a.Ties, b.Ties)
	differ("visited", a.Visited, b.Visited)
	differ("feasible", a.Feasible(), b.Feasible())
	differ("message", a.Message(), b.Message())
	differ("rejectors", a.Rejectors, b.Rejectors)
	differ("pending", a.Pending, b.Pending)
	all := max(a.refused(), b.refused())
	differ("refusals", a.Refusals(all), b.Refusals(all))
	nodes := max(a.Nodes(), b.Nodes())
	differ("scores", a.Scores(nodes), b.Scores(nodes))
	return out
}
