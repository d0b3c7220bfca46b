package plugins_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// Whole scoreboards of the default profile, as upstream's plugins give them.
//
// row: SCO-02
func TestDefaultProfileScores(t *testing.T) {
	pluginSet, err := plugins.DefaultPluginSet(v1.DefaultSchedulerName, nil)
	if err != nil {
		t.Fatal(err)
	}
	big := allocatable("cpu=10", "memory=10Gi")
	wide := allocatable("cpu=8", "memory=16Gi")
	holds := func(n *v1.Node) {
		n.Status.Images = []v1.ContainerImage{{Names: []string{"registry.fixture.test:5000/render:3"},
			SizeBytes: 1468006400}}
	}
	render := func(p *v1.Pod) { p.Spec.Containers[0].Image = "registry.fixture.test:5000/render:3" }
	for name, c := range map[string]struct {
		p     *v1.Pod
		nodes []*v1.Node
		pods  []*v1.Pod
		want  []string // the best first: node, total, and what each plugin gave that gave anything
	}{
		"balance beats emptiness": {
			newPod("crunch", requests("cpu=3", "memory=512Mi")), []*v1.Node{newNode("a", big), newNode("b", big)},
			[]*v1.Pod{newPod("a-0", onNode("a"), requests("cpu=3", "memory=6Gi")),
				newPod("b-0", onNode("b"), requests("cpu=4", "memory=4Gi"))},
			[]string{
				"a 418 NodeResourcesBalancedAllocation=81 NodeResourcesFit=37 TaintToleration=300",
				"b 410 NodeResourcesBalancedAllocation=68 NodeResourcesFit=42 TaintToleration=300",
			},
		},
		"an image pulls to the busy node": {
			newPod("render", requests("cpu=1", "memory=2Gi"), render),
			[]*v1.Node{newNode("1", wide, holds), newNode("2", wide)},
			[]*v1.Pod{newPod("load-1", onNode("1"), requests("cpu=4", "memory=4Gi"))},
			[]string{
				"1 493 ImageLocality=69 NodeResourcesBalancedAllocation=75 NodeResourcesFit=49 TaintToleration=300",
				"2 462 NodeResourcesBalancedAllocation=75 NodeResourcesFit=87 TaintToleration=300",
			},
		},
	} {
		for form, cache := range map[string]*schedule.EquivalenceCache{"plain": nil, "from memory": {}} {
			r := schedule.SchedulePod(t.Context(), schedule.Input{Pod: c.p, Snapshot: snapshot.Of(c.nodes, c.pods),
				Plugins: pluginSet, Cache: cache})
			if got := scoreboard(r); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%s, %s:\n got %q\nwant %q", name, form, got, c.want)
			}
		}
	}
}

// scoreboard is a line for each of the best two nodes: its total, and what plugins gave that gave
// anything.
func scoreboard(r *schedule.Result) (out []string) {
	for _, s := range r.Scores(2) {
		parts := map[string]int64{}
		for _, part := range s.Parts {
			if part.Weighted != 0 {
				parts[part.Plugin] = part.Weighted
			}
		}
		line := fmt.Sprint(s.Node, " ", s.Total)
		for _, plugin := range []string{"ImageLocality", "InterPodAffinity", "NodeAffinity",
			"NodeResourcesBalancedAllocation", "NodeResourcesFit", "PodTopologySpread", "TaintToleration"} {
			if n := parts[plugin]; n != 0 {
				line += fmt.Sprintf(" %s=%d", plugin, n)
			}
		}
		out = append(out, line)
	}
	return out
}

// row: SCO-15
func TestEqualInputsGiveEqualResults(t *testing.T) {
	pluginSet, err := plugins.DefaultPluginSet(v1.DefaultSchedulerName, nil)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []*v1.Node
	var pods []*v1.Pod
	for i := range 40 {
		name := fmt.Sprintf("n%02d", i)
		nodes = append(nodes, newNode(name, label("zone", fmt.Sprint(i%3))))
		pods = append(pods, newPod("p-"+name, onNode(name), requests(fmt.Sprintf("cpu=%dm", 100*(i%35)), "memory=1Gi"),
			withPodLabels("app=web")))
	}
	p := newPod("new", requests("cpu=900m", "memory=1Gi"), withPodLabels("app=web"),
		spread(1, "zone", v1.ScheduleAnyway))
	first := ""
	for range 5 {
		f := schedule.SchedulePod(t.Context(), schedule.Input{Pod: p, Snapshot: snapshot.Of(nodes, pods),
			Plugins: pluginSet, Buffers: &schedule.Buffers{}}).Fact()
		f.Took, f.Points = 0, nil
		if now := fmt.Sprintf("%+v", f); first == "" {
			first = now
		} else if now != first {
			t.Fatalf("another result of the same input:\n%s\n%s", first, now)
		}
	}
}
