package nodeaffinity_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodeaffinity"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// Nodes that differ in one label only are told apart, whichever selector or expression names it.
//
// row: FIL-02
// row: FIL-04
func TestEveryLabelThatIsAskedForCounts(t *testing.T) {
	node := func(name, cpus string) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{"disk": "ssd", "cpus": cpus}}}
	}
	pl, err := nodeaffinity.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]v1.PodSpec{
		"selector": {NodeSelector: map[string]string{"cpus": "8"}},
		"expressions": {Affinity: &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
					{Key: "disk", Operator: v1.NodeSelectorOpExists},
					{Key: "cpus", Operator: v1.NodeSelectorOpGt, Values: []string{"4"}}}}}}}}},
	} {
		for form, cache := range map[string]*schedule.EquivalenceCache{"node by node": nil, "by columns": {}} {
			r := schedule.SchedulePod(t.Context(), schedule.Input{
				Pod:      &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: spec},
				Snapshot: snapshot.Of([]*v1.Node{node("a", "8"), node("b", "4")}, nil), Cache: cache,
				Plugins: schedule.NewPluginSet("test", schedule.WeightedPlugin{Plugin: pl})})
			if r.Feasible() != 1 || r.SuggestedHost != "a" {
				t.Errorf("%s, %s: %d fit, the best is %q, want a alone", name, form, r.Feasible(), r.SuggestedHost)
			}
		}
	}
}
