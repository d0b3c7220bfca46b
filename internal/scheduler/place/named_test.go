package place

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// Only Pods each of whose terms names nodes are judged on these alone, and only where somebody narrows the nodes to them.
func TestNamed(t *testing.T) {
	term := func(key string, op v1.NodeSelectorOperator) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: key, Operator: op, Values: []string{"n1"}}}}
	}
	name, other := term("metadata.name", v1.NodeSelectorOpIn), term("metadata.name", v1.NodeSelectorOpNotIn)
	labels := v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpExists}}}
	for _, tc := range []struct {
		name  string
		terms []v1.NodeSelectorTerm
		judge string
		want  bool
	}{
		{"one name", []v1.NodeSelectorTerm{name}, namesNodes, true},
		{"two names", []v1.NodeSelectorTerm{name, name}, namesNodes, true},
		{"a name or labels", []v1.NodeSelectorTerm{name, labels}, namesNodes, false},
		{"all but a name", []v1.NodeSelectorTerm{other}, namesNodes, false},
		{"labels", []v1.NodeSelectorTerm{labels}, namesNodes, false},
		{"no term", []v1.NodeSelectorTerm{}, namesNodes, false},
		{"nobody narrows", []v1.NodeSelectorTerm{name}, "Other", false},
	} {
		p := &v1.Pod{Spec: v1.PodSpec{Affinity: &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: tc.terms}}}}}
		c := &cycle{In: In{Pod: p, Judges: &Judges{PreFilter: []framework.PreFilterPlugin{called(tc.judge)}}}}
		if got := c.named(); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
	if (&cycle{In: In{Pod: &v1.Pod{}, Judges: &Judges{}}}).named() {
		t.Error("a Pod without affinity")
	}
}

// called is a plugin that has a name.
type called string

func (c called) Name() string { return string(c) }

func (called) PreFilter(context.Context, framework.CycleState, *v1.Pod, []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	return nil, nil
}

func (called) PreFilterExtensions() framework.PreFilterExtensions { return nil }
