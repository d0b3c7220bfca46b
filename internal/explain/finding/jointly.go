package finding

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// termsAt is where required node affinity has its terms, below a Pod's spec.
const termsAt = ".affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"

func expressionText(e corev1.NodeSelectorRequirement) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ",")))
}

// matchingNodes are the names of the nodes that meet all expressions.
func matchingNodes(nodes []*corev1.Node, all ...corev1.NodeSelectorRequirement) []string {
	var out []string
	for _, n := range nodes {
		if !slices.ContainsFunc(all, func(e corev1.NodeSelectorRequirement) bool { return !fulfils(n.Labels, e) }) {
			out = append(out, n.Name)
		}
	}
	return out
}

// dropExpression is the remedy for an expression that no node meets together with the others of its
// term: to drop it, where a node meets those.
func (c *Cluster) dropExpression(self Object, t corev1.NodeSelectorTerm, at string, j int) []Remedy {
	rest := slices.Delete(slices.Clone(t.MatchExpressions), j, j+1)
	names := matchingNodes(list[*corev1.Node](c, "Node"), rest...)
	if len(rest) == 0 || len(names) == 0 {
		return nil
	}
	field := fmt.Sprintf("%s.matchExpressions[%d]", at, j)
	return []Remedy{{Say: fmt.Sprintf("or drop %s, or make it a term of its own: expressions of one term all have to "+
		"hold, terms are alternatives; the others are met by %s", expressionText(t.MatchExpressions[j]), joined(names)),
		Run: c.patchCommand(self, fmt.Sprintf(`[{"op":"remove","path":%s}]`, jsonText(pointer(field))))}}
}

// conflictingExpressions finds two expressions of a term that some nodes meet each, and none both.
func (c *Cluster) conflictingExpressions(self Object, t corev1.NodeSelectorTerm, at string) (Finding, bool) {
	nodes := list[*corev1.Node](c, "Node")
	all := t.MatchExpressions
	for j := range all {
		for k := j + 1; k < len(all); k++ {
			if len(matchingNodes(nodes, all[j], all[k])) > 0 {
				continue
			}
			return Finding{Code: "NodeLabelMissing", Stage: StagePlacement, Object: self,
				Field: fmt.Sprintf("%s.matchExpressions[%d]", at, k), Value: expressionText(all[k]),
				Message: fmt.Sprintf("%s %s demands %s and %s of one node (%s): nodes that meet the first are %s, "+
					"those that meet the second %s, and none meets both.", self.Kind, self.Name, expressionText(all[j]),
					expressionText(all[k]), at, joined(matchingNodes(nodes, all[j])),
					joined(matchingNodes(nodes, all[k]))),
				Remedies: c.dropExpression(self, t, at, k)}, true
		}
	}
	return Finding{}, false
}

// selectorAgainstAffinity finds a node selector and a node affinity that some nodes meet each, and
// none both.
func (c *Cluster) selectorAgainstAffinity(self Object, spec *corev1.PodSpec, selector map[string]string,
	at string) []Finding {
	nodes := list[*corev1.Node](c, "Node")
	terms := requiredTerms(spec)
	if len(selector) == 0 || len(terms) == 0 || len(nodes) == 0 {
		return nil
	}
	var byLabels, byTerms []string
	for _, n := range nodes {
		selects := labels.SelectorFromSet(selector).Matches(labels.Set(n.Labels))
		fits := fitsLabels(&corev1.PodSpec{Affinity: spec.Affinity}, n)
		switch {
		case selects && fits:
			return nil
		case selects:
			byLabels = append(byLabels, n.Name)
		case fits:
			byTerms = append(byTerms, n.Name)
		}
	}
	if len(byLabels) == 0 || len(byTerms) == 0 {
		return nil // that one is told by itself
	}
	return []Finding{{Code: "NodeLabelMissing", Stage: StagePlacement, Object: self, Field: at + ".nodeSelector",
		Value: labels.Set(selector).String(), Message: fmt.Sprintf("%s %s wants a node that its nodeSelector (%s) and "+
			"its node affinity (%s) both fit: the first fits %s, the second %s, and none both.", self.Kind, self.Name,
			labels.Set(selector), at+termsAt, joined(byLabels), joined(byTerms)),
		Remedies: []Remedy{{Say: fmt.Sprintf("do without nodeSelector, so that %s fit", joined(byTerms)),
			Run: c.patchCommand(self, fmt.Sprintf(`[{"op":"remove","path":%s}]`,
				jsonText(pointer(at+".nodeSelector"))))},
			{Say: fmt.Sprintf("or without the affinity, so that %s fit", joined(byLabels)), Run: c.patchCommand(self,
				fmt.Sprintf(`[{"op":"remove","path":%s}]`, jsonText(pointer(strings.TrimSuffix(at+termsAt,
					".nodeSelectorTerms")))))}}}}
}
