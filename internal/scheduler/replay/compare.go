package replay

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gantry-project/gantry/internal/journal"
)

func join(s []string) string { return strings.Join(s, "; ") }

func nodeName(winner string) string {
	if winner == "" {
		return "no node"
	}
	return winner
}

// compare says what differs between the recorded result and the one made now: the choice, then the
// first refusal and the first score that are not alike.
func compare(was, now journal.Ruled) []string {
	var out []string
	differ := func(what string, a, b any) {
		if a != b {
			out = append(out, fmt.Sprintf("%s: recorded %v, now %v", what, a, b))
		}
	}
	differ("winner", nodeName(was.Winner), nodeName(now.Winner))
	differ("runner-up", nodeName(was.RunnerUp), nodeName(now.RunnerUp))
	differ("nodes that fit", was.Feasible, now.Feasible)
	differ("nodes looked at", was.Visited, now.Visited)
	differ("nodes with the top score", was.Ties, now.Ties)
	differ("message", was.Message, now.Message)
	differ("ended by", was.By, now.By)
	out = append(out, firstDifference("refusal", was.Refusals, now.Refusals, refusalText)...)
	out = append(out, firstDifference("counted refusals", was.Counted, now.Counted, countedText)...)
	return append(out, scoreDifference(was.Scores, now.Scores)...)
}

// firstDifference names the first entry in which two lists differ.
func firstDifference[T any](what string, was, now []T, say func(T) string) []string {
	for i := range max(len(was), len(now)) {
		a, b := "none", "none"
		if i < len(was) {
			a = say(was[i])
		}
		if i < len(now) {
			b = say(now[i])
		}
		if a == "none" || b == "none" || !equalJSON(was[i], now[i]) {
			return []string{fmt.Sprintf("%s %d: recorded %s, now %s", what, i+1, a, b)}
		}
	}
	return nil
}

// equalJSON compares as written: an empty list is none.
func equalJSON(a, b any) bool {
	x, err := json.Marshal(a)
	y, other := json.Marshal(b)
	return err == nil && other == nil && string(x) == string(y)
}

func refusalText(r journal.NodeRefusal) string {
	s := fmt.Sprintf("%s by %s (%s)", r.Node, r.Plugin, strings.Join(r.Messages, ", "))
	if r.Detail != "" {
		s += ", " + r.Detail
	}
	return s
}

func countedText(r journal.CountedRefusal) string {
	return fmt.Sprintf("%d nodes by %s (%s)", r.Nodes, r.Plugin, strings.Join(r.Messages, ", "))
}

// scoreDifference names the first node, in the recorded order, whose score differs, and the plugins
// that scored it differently.
func scoreDifference(was, now []journal.NodeScore) []string {
	by := map[string]journal.NodeScore{}
	for _, n := range now {
		by[n.Node] = n
	}
	for _, a := range was {
		b, scored := by[a.Node]
		switch {
		case !scored:
			return []string{fmt.Sprintf("score of %s: recorded %d, now not among the best", a.Node, a.Total)}
		case !equalJSON(a, b):
			return []string{fmt.Sprintf("score of %s: recorded %d, now %d%s", a.Node, a.Total, b.Total,
				pluginScoreDifferences(a.Parts, b.Parts))}
		}
	}
	if len(now) != len(was) {
		return []string{fmt.Sprintf("scores: recorded of %d nodes, now of %d", len(was), len(now))}
	}
	return nil
}

func pluginScoreDifferences(was, now []journal.PluginScore) string {
	by := map[string]journal.PluginScore{}
	for _, p := range now {
		by[p.Plugin] = p
	}
	var out []string
	for _, a := range was {
		b, scored := by[a.Plugin]
		delete(by, a.Plugin)
		switch {
		case !scored:
			out = append(out, fmt.Sprintf("%s %d, now silent", a.Plugin, a.Weighted))
		case a != b:
			out = append(out, fmt.Sprintf("%s %d×%d, now %d×%d", a.Plugin, a.Norm, a.Weight, b.Norm, b.Weight))
		}
	}
	for _, b := range now {
		if _, only := by[b.Plugin]; only {
			out = append(out, fmt.Sprintf("%s silent, now %d", b.Plugin, b.Weighted))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, ", ") + ")"
}

// placementDifference says where a Pod would have gone with another configuration, and by which
// scores; nothing when it would have gone where it went.
func placementDifference(was, now journal.Ruled) []string {
	if was.Winner == now.Winner {
		return nil
	}
	s := fmt.Sprintf("%s, with the other configuration %s", nodeName(was.Winner), nodeName(now.Winner))
	switch {
	case was.Winner == "" || now.Winner == "":
		for _, r := range append(was.Refusals, now.Refusals...) {
			if r.Node == was.Winner || r.Node == now.Winner {
				s += "; refusal of " + refusalText(r)
				break
			}
		}
	default:
		s += fmt.Sprintf(" (recorded: %s; other: %s)", scoresText(was, now.Winner), scoresText(now, was.Winner))
	}
	return []string{s}
}

// scoresText prints the scores of the winner and of another node, as far as they are known.
func scoresText(r journal.Ruled, other string) string {
	total := func(node string) string {
		for _, n := range r.Scores {
			if n.Node == node && (len(n.Parts) > 0 || len(r.Scores) > 1) {
				return fmt.Sprintf("%s %d", node, n.Total)
			}
		}
		for _, f := range r.Refusals {
			if f.Node == node {
				return fmt.Sprintf("%s refused by %s", node, f.Plugin)
			}
		}
		return node + " not scored"
	}
	return total(r.Winner) + ", " + total(other)
}
