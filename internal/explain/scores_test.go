package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// row: SCO-16
func TestWhyNamesTheNodesOutsideTheSample(t *testing.T) {
	in := base()
	runs := func(in *In) {
		in.Pod.Status = corev1.PodStatus{Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}).Ready = true
	}
	runs(&in)
	r := journal.Ruled{Attempt: 1, Nodes: 300, Feasible: 100, Winner: "n1", RunnerUp: "n2",
		Sample: journal.Sample{Visited: 120, Left: 180, LeftOut: []string{"n120", "n121"}},
		Scores: []journal.NodeScore{{Node: "n1", Total: 90}, {Node: "n2", Total: 80}}}
	in.fact(time.Minute, "scheduler", r)
	want := "120 of 300 nodes were visited: enough of them fit for the percentageOfNodesToScore in force; not " +
		"visited, though a better one may be among them: n120, n121 and 178 more"
	if a := strings.Join(Why(in).Facts, "\n"); !strings.Contains(a, want) {
		t.Errorf("got\n%s\nwant %s", a, want)
	}
	r.Sample, r.Nodes = journal.Sample{Visited: 300}, 300
	in = base()
	runs(&in)
	in.fact(time.Minute, "scheduler", r)
	if a := strings.Join(Why(in).Facts, "\n"); strings.Contains(a, "not visited") {
		t.Errorf("all nodes were visited, yet\n%s", a)
	}
}

// Winner, runner-up, and by how much each plugin was for one or the other; or that equals were
// drawn.
//
// row: SCO-20
func TestWhyComparesWithTheRunnerUp(t *testing.T) {
	part := func(plugin string, weighted int64) journal.PluginScore {
		return journal.PluginScore{Plugin: plugin, Weighted: weighted}
	}
	score := func(node string, parts ...journal.PluginScore) journal.NodeScore {
		s := journal.NodeScore{Node: node, Parts: parts}
		for _, p := range parts {
			s.Total += p.Weighted
		}
		return s
	}
	for want, r := range map[string]journal.Ruled{
		"n1 won 90 to 80 over n2 by NodeResourcesFit 60 against 50.": {RunnerUp: "n2", Scores: []journal.NodeScore{
			score("n3", part("NodeResourcesFit", 10), part("TaintToleration", 0)),
			score("n2", part("NodeResourcesFit", 50), part("TaintToleration", 30)),
			score("n1", part("NodeResourcesFit", 60), part("TaintToleration", 30))}},
		"n1 won 95 to 80 over n2 by NodeAffinity 40 against 0 and ImageLocality 5 against 0. That outweighs what " +
			"spoke for n2: TaintToleration 80 against 50.": {RunnerUp: "n2", Scores: []journal.NodeScore{
			score("n1", part("NodeAffinity", 40), part("TaintToleration", 50), part("ImageLocality", 5)),
			score("n2", part("NodeAffinity", 0), part("TaintToleration", 80), part("ImageLocality", 0))}},
		"n1 was chosen by lot: it shares the top score of 70 with n2, n3.": {RunnerUp: "n2", Ties: 3,
			Scores: []journal.NodeScore{score("n1", part("X", 70)), score("n2", part("X", 70)),
				score("n3", part("X", 70)), score("n4", part("X", 60))}},
	} {
		in := base()
		in.Pod.Status = corev1.PodStatus{Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}).Ready = true
		r.Winner, r.Nodes, r.Feasible = "n1", 4, 4
		in.fact(time.Minute, "scheduler", r)
		var text strings.Builder
		if err := Why(in).WriteText(&text, in.Now); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(strings.Fields(text.String()), " "); !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %s", text.String(), want)
		}
	}
}
