package nodeaffinity

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/kube-scheduler/framework"
)

// EventsToRegister wakes for nodes whose labels match now and did not before.
func (pl *Plugin) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	matches := func(p *v1.Pod, n *v1.Node) bool {
		if pl.addedAffinity != nil && !pl.addedAffinity.Match(n) {
			return false
		}
		ok, _ := nodeaffinity.GetRequiredNodeAffinity(p).Match(n)
		return ok
	}
	hint := func(_ logr.Logger, p *v1.Pod, before, after any) (framework.QueueingHint, error) {
		is, has := after.(*v1.Node)
		if !has {
			return framework.Queue, nil
		}
		was, had := before.(*v1.Node)
		if !matches(p, is) || had && matches(p, was) {
			return framework.QueueSkip, nil
		}
		return framework.Queue, nil
	}
	return []framework.ClusterEventWithHint{
		{Event: framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add | framework.UpdateNodeLabel},
			QueueingHintFn: hint},
	}, nil
}

// explainMismatch says which of the Pod's requirements the node does not meet, and how to meet it.
func explainMismatch(p *v1.Pod, n *v1.Node) (detail, fix string) {
	for _, key := range slices.Sorted(maps.Keys(p.Spec.NodeSelector)) {
		want := p.Spec.NodeSelector[key]
		if have, ok := n.Labels[key]; !ok || have != want {
			return fmt.Sprintf("nodeSelector wants %s=%s, node has %s", key, want, labelText(n, key)),
				fmt.Sprintf("kubectl label node %s %s=%s --overwrite", n.Name, key, want)
		}
	}
	want := terms(p)
	if want == nil {
		return "", ""
	}
	var texts []string
	for _, t := range want.NodeSelectorTerms {
		if text := unmetRequirement(t, n); text != "" {
			texts = append(texts, text)
		}
	}
	return "node affinity wants " + strings.Join(texts, ", or "),
		"label a node so that one of the terms matches, or relax the Pod's node affinity"
}

// unmetRequirement prints the first requirement of a term that the node does not meet.
func unmetRequirement(t v1.NodeSelectorTerm, n *v1.Node) string {
	for _, r := range t.MatchExpressions {
		one := &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{r}}}}
		if ok, _ := nodeaffinity.NewLazyErrorNodeSelector(one).Match(n); !ok {
			return fmt.Sprintf("%s %s %v (node has %s%s)", r.Key, r.Operator, r.Values, labelText(n, r.Key),
				notInteger(r, n))
		}
	}
	for _, r := range t.MatchFields {
		one := &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{r}}}}
		if ok, _ := nodeaffinity.NewLazyErrorNodeSelector(one).Match(n); !ok {
			return fmt.Sprintf("%s %s %v", r.Key, r.Operator, r.Values)
		}
	}
	return ""
}

// notInteger says of a label that a requirement compares as a number that it is none.
func notInteger(r v1.NodeSelectorRequirement, n *v1.Node) string {
	v, has := n.Labels[r.Key]
	if !has || r.Operator != v1.NodeSelectorOpGt && r.Operator != v1.NodeSelectorOpLt {
		return ""
	}
	if _, err := strconv.ParseInt(v, 10, 64); err == nil {
		return ""
	}
	return fmt.Sprintf(", which is not an integer: %s compares integers only", r.Operator)
}

func labelText(n *v1.Node, key string) string {
	if v, ok := n.Labels[key]; ok {
		return key + "=" + v
	}
	return "no label " + key
}
