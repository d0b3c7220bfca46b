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
