package finding

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gantry-project/gantry/internal/pod"
)

// besideUnplaced finds a Pod that has to be placed beside others of which none has a node itself,
// and follows what those wait for; two that wait for each other never find one.
func besideUnplaced(c *Cluster, o metav1.Object, self Object) []Finding {
	p, ok := o.(*corev1.Pod)
	if !ok || p.Spec.NodeName != "" || p.DeletionTimestamp != nil || !c.Read("Pod") {
		return nil
	}
	var out []Finding
	for _, t := range c.waitsBeside(p) {
		root := c.outermost(o, self)
		spec, at := podSpecOf(c.Get(root))
		if spec == nil {
			root, at = self, "spec"
		}
		first := objectOf("Pod", t.pods[0])
		f := Finding{Code: "BesideUnplaced", Severity: Threat, Stage: StagePlacement, Object: root,
			Field: at + strings.TrimPrefix(t.at, "spec") + ".labelSelector", Value: t.selector,
			Related: []Object{first},
			Message: fmt.Sprintf("%s %s has to be placed beside Pods with %s, and of these none has a node yet: Pod "+
				"%s has to find one first.", root.Kind, root.Name, t.selector, first.Name)}
		chain, circle := c.affinityChain(p, t.pods[0])
		switch {
		case circle:
			f.Severity = Broken
			f.Message += fmt.Sprintf(" That one waits for this one in turn (%s): neither is ever placed, as long as "+
				"both must be beside the other.", strings.Join(chain, " waits for "))
			f.Remedies = []Remedy{{Say: "let one of them do without its affinity, or only prefer it",
				Run: c.patchCommand(root, fmt.Sprintf(`[{"op":"remove","path":%s}]`, jsonText(pointer(at+
					strings.TrimPrefix(t.at, "spec")))))}}
		case len(chain) > 2:
			f.Message += fmt.Sprintf(" The chain is %s; the last one's reason is the one to mend.", strings.Join(chain,
				" waits for "))
			f.Remedies = []Remedy{SeeWhy("see why the last one has no node",
				Object{"Pod", self.Namespace, chain[len(chain)-1]})}
		default:
			f.Remedies = []Remedy{SeeWhy("see why that one has no node", first)}
		}
		out = append(out, f)
	}
	return out
}

// besideTerm is a required term of Pod affinity that only Pods without a node match.
type besideTerm struct {
	at, selector string
	pods         []*corev1.Pod
}

// waitsBeside are the terms of a Pod's required affinity that only other Pods without a node match.
func (c *Cluster) waitsBeside(p *corev1.Pod) []besideTerm {
	var out []besideTerm
	for _, t := range affinityTerms(p.Spec.Affinity, "spec.affinity") {
		s, err := metav1.LabelSelectorAsSelector(t.term.LabelSelector)
		if t.preferred || !t.beside || err != nil || t.term.NamespaceSelector != nil || len(t.term.Namespaces) > 0 {
			continue
		}
		term := besideTerm{at: t.at, selector: s.String()}
		placed := s.Matches(labels.Set(p.Labels)) // the first of its own kind needs nobody
		for _, x := range in[*corev1.Pod](c, "Pod", p.Namespace) {
			if x.Name == p.Name || !s.Matches(labels.Set(x.Labels)) ||
				pod.IsTerminal(x) {
				continue
			}
			placed = placed || x.Spec.NodeName != ""
			term.pods = append(term.pods, x)
		}
		if !placed && len(term.pods) > 0 {
			out = append(out, term)
		}
	}
	return out
}

// affinityChain follows what Pods wait for beside whom, from a Pod by the next one; circle says
// that it comes back to the first.
func (c *Cluster) affinityChain(first, next *corev1.Pod) (names []string, circle bool) {
	names = []string{first.Name}
	for len(names) < maxFollowed {
		names = append(names, next.Name)
		if next.Name == first.Name {
			return names, true
		}
		terms := c.waitsBeside(next)
		if len(terms) == 0 {
			return names, false
		}
		next = terms[0].pods[0]
	}
	return names, false
}

// besidePods are the Pods that a Pod without a node waits for, as it must be beside them.
func (c *Cluster) besidePods(o metav1.Object) []Object {
	p, ok := o.(*corev1.Pod)
	if !ok || p.Spec.NodeName != "" {
		return nil
	}
	var out []Object
	for _, t := range c.waitsBeside(p) {
		for _, x := range t.pods[:min(len(t.pods), 3)] {
			out = append(out, objectOf("Pod", x))
		}
	}
	return out
}
