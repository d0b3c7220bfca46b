package schedule

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// Only Pods each of whose terms names nodes are evaluated on these alone, and only where somebody
// narrows the nodes to them.
func TestPodsThatNameTheirNodes(t *testing.T) {
	term := func(key string, op v1.NodeSelectorOperator) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{
			MatchFields: []v1.NodeSelectorRequirement{{Key: key, Operator: op, Values: []string{"n1"}}}}
	}
	name, other := term("metadata.name", v1.NodeSelectorOpIn), term("metadata.name", v1.NodeSelectorOpNotIn)
	labels := v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{
		{Key: "zone", Operator: v1.NodeSelectorOpExists}}}
	for _, tc := range []struct {
		name   string
		terms  []v1.NodeSelectorTerm
		plugin string
		want   bool
	}{
		{"one name", []v1.NodeSelectorTerm{name}, nodeAffinityPlugin, true},
		{"two names", []v1.NodeSelectorTerm{name, name}, nodeAffinityPlugin, true},
		{"a name or labels", []v1.NodeSelectorTerm{name, labels}, nodeAffinityPlugin, false},
		{"all but a name", []v1.NodeSelectorTerm{other}, nodeAffinityPlugin, false},
		{"labels", []v1.NodeSelectorTerm{labels}, nodeAffinityPlugin, false},
		{"no term", []v1.NodeSelectorTerm{}, nodeAffinityPlugin, false},
		{"nobody narrows", []v1.NodeSelectorTerm{name}, "Other", false},
	} {
		p := &v1.Pod{
			Spec: v1.PodSpec{
				Affinity: &v1.Affinity{
					NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
						NodeSelectorTerms: tc.terms}}}}}
		c := &cycle{
			Input: Input{Pod: p, Plugins: &PluginSet{PreFilter: []framework.PreFilterPlugin{namedPlugin(tc.plugin)}}}}
		if got := c.hasNamedNodes(); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
	if (&cycle{Input: Input{Pod: &v1.Pod{}, Plugins: &PluginSet{}}}).hasNamedNodes() {
		t.Error("a Pod without affinity")
	}
}

// namedPlugin is a plugin that has a name.
type namedPlugin string

func (c namedPlugin) Name() string { return string(c) }

func (namedPlugin) PreFilter(context.Context, framework.CycleState, *v1.Pod,
	[]framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	return nil, nil
}

func (namedPlugin) PreFilterExtensions() framework.PreFilterExtensions { return nil }
