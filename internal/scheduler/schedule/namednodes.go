package schedule

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-scheduler/framework"
)

// nodeAffinityPlugin is the plugin that narrows the nodes to those that a Pod names.
const nodeAffinityPlugin = "NodeAffinity"

// hasNamedNodes tells whether the Pod's required affinity names its nodes, as a DaemonSet's Pods
// do. It is evaluated on these alone, by the plain path: what is remembered of all nodes, which
// would have to be brought up to date and asked first, is of no use for that.
func (c *cycle) hasNamedNodes() bool {
	a := c.Pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	nameless := func(t v1.NodeSelectorTerm) bool { return !slices.ContainsFunc(t.MatchFields, isNodeNameRequirement) }
	return len(terms) > 0 && !slices.ContainsFunc(terms, nameless) &&
		slices.ContainsFunc(c.Plugins.PreFilter,
			func(p framework.PreFilterPlugin) bool { return p.Name() == nodeAffinityPlugin })
}

func isNodeNameRequirement(f v1.NodeSelectorRequirement) bool {
	return f.Key == metav1.ObjectNameField && f.Operator == v1.NodeSelectorOpIn
}
