package finding

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/gantry-project/gantry/internal/explain/workload"
)

// topology finds topology keys that no node has, constraints about other Pods than the own, and
// anti-affinity with more replicas than places.
func topology(c *Cluster, o metav1.Object, self Object) []Finding {
	spec, at := podSpecOf(o)
	nodes := list[*corev1.Node](c, "Node")
	if spec == nil || spec.NodeName != "" || len(nodes) == 0 {
		return nil
	}
	own := labelsOfPods(o)
	var out []Finding
	for i, t := range spec.TopologySpreadConstraints {
		field := fmt.Sprintf("%s.topologySpreadConstraints[%d]", at, i)
		hard := t.WhenUnsatisfiable != corev1.ScheduleAnyway
		out = append(out, c.topologyKey(self, field+".topologyKey", t.TopologyKey, hard)...)
		s, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
		if err == nil && t.LabelSelector != nil && !s.Matches(labels.Set(own)) {
			f := Finding{Code: "SpreadsOthers", Severity: Threat, Stage: StagePlacement, Object: self,
				Field: field + ".labelSelector", Value: s.String(), Message: fmt.Sprintf("%s of %s %s selects %s, and "+
					"its own Pods have other labels: they are not spread by it.", field, self.Kind, self.Name, s)}
			if d, ok := nearestLabels(wantedLabels(t.LabelSelector), []labelled{{self, own}}); ok {
				f.describe(d)
				f.Remedies = []Remedy{c.selectInstead(self, field+".labelSelector.matchLabels", d)}
			}
			out = append(out, f)
		}
	}
	if spec.Affinity == nil {
		return out
	}
	out = append(out, c.preferredNodes(spec, self, at+".affinity.nodeAffinity")...)
	if a := spec.Affinity.PodAffinity; a != nil {
		for i, t := range a.RequiredDuringSchedulingIgnoredDuringExecution {
			out = append(out, c.topologyKey(self, fmt.Sprintf("%s.affinity.podAffinity."+
				"requiredDuringSchedulingIgnoredDuringExecution[%d].topologyKey", at, i), t.TopologyKey, true)...)
		}
	}
	if a := spec.Affinity.PodAntiAffinity; a != nil {
		for i, t := range a.RequiredDuringSchedulingIgnoredDuringExecution {
			field := fmt.Sprintf("%s.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[%d]", at,
				i)
			out = append(out, c.topologyKey(self, field+".topologyKey", t.TopologyKey, false)...)
			out = append(out, c.places(o, self, field, t)...)
		}
	}
	for _, t := range affinityTerms(spec.Affinity, at+".affinity") {
		if !t.preferred {
			continue
		}
		for _, f := range c.topologyKey(self, t.at+".topologyKey", t.term.TopologyKey, false) {
			if f.Want == "" {
				f.Severity = Note // a preference that this cluster cannot meet
			}
			out = append(out, f)
		}
	}
	return out
}

// labelsOfPods are the labels of a Pod or of a workload's Pods.
func labelsOfPods(o metav1.Object) map[string]string {
	if t := workload.Template(o); t != nil {
		return t.Labels
	}
	return o.GetLabels()
}

// topologyKey finds a key that no node has. Hard says that Pods wait then; else the term has no
// effect.
func (c *Cluster) topologyKey(self Object, field, key string, hard bool) []Finding {
	var keys []string
	for _, n := range list[*corev1.Node](c, "Node") {
		for k := range n.Labels {
			keys = append(keys, k)
		}
	}
	if slices.Contains(keys, key) {
		return nil
	}
	f := Finding{Code: "TopologyKeyMissing", Stage: StagePlacement, Object: self, Field: field, Value: key,
		Message: fmt.Sprintf("%s of %s %s is %s, and no node has such a label", field, self.Kind, self.Name, key)}
	if hard {
		f.Message += ": no node fits."
	} else {
		f.Severity = Threat
		f.Message += ": the term has no effect."
	}
	if near, how := Near(key, keys); near != "" {
		f.Want = near
		f.Message += fmt.Sprintf(" Perhaps %s was meant; %s.", near, how)
		f.Remedies = []Remedy{{Say: "set it to " + near, Run: c.replaceCommand(self, field, near)}}
	}
	return []Finding{f}
}

// places compares a workload's replicas with the places that anti-affinity to its own Pods leaves.
func (c *Cluster) places(o metav1.Object, self Object, field string, t corev1.PodAffinityTerm) []Finding {
	spec, _ := podSpecOf(o)
	want := workload.FieldsOf(o).Replicas
	s, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
	if err != nil || t.LabelSelector == nil || !s.Matches(labels.Set(labelsOfPods(o))) {
		return nil
	}
	values, taken := map[string]bool{}, map[string]bool{}
	for _, p := range list[*corev1.Pod](c, "Pod") {
		if p.Namespace == self.Namespace && s.Matches(labels.Set(p.Labels)) {
			taken[p.Spec.NodeName] = true
		}
	}
	for _, n := range list[*corev1.Node](c, "Node") {
		if v, ok := n.Labels[t.TopologyKey]; ok && (taken[n.Name] ||
			len(untolerated(spec, n)) == 0 && fitsLabels(spec, n)) {
			values[v] = true
		}
	}
	n := len(values)
	if n == 0 || int(want) <= n {
		return nil
	}
	return []Finding{{Code: "TooFewPlaces", Stage: StagePlacement, Object: self, Field: field,
		Value: t.TopologyKey, Want: fmt.Sprint(n), Numbers: map[string]string{"replicas": fmt.Sprint(want),
			"places": fmt.Sprint(n)},
		Message: fmt.Sprintf("%s %s wants %d replicas (spec.replicas), and no two may share a value of %s (%s): the "+
			"nodes that they may run on have %d (%s).", self.Kind, self.Name, want, t.TopologyKey, field, n,
			joined(slices.Sorted(maps.Keys(values)))),
		Remedies: []Remedy{{Say: fmt.Sprintf("run as many as there are places: %d", n), Run: []string{kubectl(self,
			"scale", fmt.Sprintf("--replicas=%d", n))}}}}}
}

// untolerated returns the taints of a node that keep a Pod away; a cordoned node has one too.
func untolerated(spec *corev1.PodSpec, n *corev1.Node) []corev1.Taint {
	var out []corev1.Taint
	taints := n.Spec.Taints
	if n.Spec.Unschedulable {
		taints = append(slices.Clone(taints), corev1.Taint{Key: corev1.TaintNodeUnschedulable,
			Effect: corev1.TaintEffectNoSchedule})
	}
	for i := range taints {
		if taints[i].Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(spec.Tolerations,
			func(t corev1.Toleration) bool { return tolerates(&t, &taints[i]) }) {
			out = append(out, taints[i])
		}
	}
	return out
}

// tolerates reports whether a toleration is for a taint.
func tolerates(t *corev1.Toleration, x *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != x.Effect || t.Key != "" && t.Key != x.Key {
		return false
	}
	return t.Operator == corev1.TolerationOpExists || t.Key != "" && t.Value == x.Value
}

// fitsLabels reports whether a node has what nodeSelector and required node affinity demand.
func fitsLabels(spec *corev1.PodSpec, n *corev1.Node) bool {
	if !labels.SelectorFromSet(spec.NodeSelector).Matches(labels.Set(n.Labels)) {
		return false
	}
	terms := requiredTerms(spec)
	return len(terms) == 0 || slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
			return !fulfils(n.Labels, e)
		}) && !slices.ContainsFunc(t.MatchFields, func(e corev1.NodeSelectorRequirement) bool {
			return !fulfils(map[string]string{metav1.ObjectNameField: n.Name}, e)
		})
	})
}

func requiredTerms(spec *corev1.PodSpec) []corev1.NodeSelectorTerm {
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil &&
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	return nil
}

// fulfils reports whether labels meet an expression of node affinity.
func fulfils(set map[string]string, e corev1.NodeSelectorRequirement) bool {
	ops := map[corev1.NodeSelectorOperator]selection.Operator{corev1.NodeSelectorOpIn: selection.In,
		corev1.NodeSelectorOpNotIn: selection.NotIn, corev1.NodeSelectorOpExists: selection.Exists,
		corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist, corev1.NodeSelectorOpGt: selection.GreaterThan,
		corev1.NodeSelectorOpLt: selection.LessThan}
	r, err := labels.NewRequirement(e.Key, ops[e.Operator], e.Values)
	return err == nil && r.Matches(labels.Set(set))
}

// nodeExpressions finds expressions of node affinity that no node meets.
func nodeExpressions(c *Cluster, self Object, terms []corev1.NodeSelectorTerm, at string) []Finding {
	nodes := list[*corev1.Node](c, "Node")
	var out []Finding
	for i, t := range terms {
		before := len(out)
		for j, e := range t.MatchExpressions {
			if slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return fulfils(n.Labels, e) }) {
				continue
			}
			term := fmt.Sprintf("%s[%d]", at, i)
			f := c.nodeExpression(self, e, fmt.Sprintf("%s.matchExpressions[%d]", term, j))
			f.Remedies = append(f.Remedies, c.dropExpression(self, t, term, j)...)
			out = append(out, f)
		}
		for j, e := range t.MatchFields {
			if e.Key != metav1.ObjectNameField || e.Operator != corev1.NodeSelectorOpIn ||
				slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return slices.Contains(e.Values, n.Name) }) {
				continue
			}
			f := c.nodeExpression(self, e, fmt.Sprintf("%s[%d].matchFields[%d]", at, i, j))
			f.Code, f.Value, f.Remedies = "ReferenceMissing", joined(e.Values), nil
			f.Related = []Object{{"Node", "", e.Values[0]}}
			f.Message = fmt.Sprintf("%s %s is for node %s (%s), and there is no such node.", self.Kind, self.Name,
				f.Value, f.Field)
			if f.Want, _ = Near(e.Values[0], c.names("Node", "")); f.Want != "" {
				f.Message += fmt.Sprintf(" There is %s: perhaps that was meant.", f.Want)
			}
			out = append(out, f)
		}
		if len(out) > before {
			continue
		}
		f, found := c.conflictingExpressions(self, t, fmt.Sprintf("%s[%d]", at, i))
		if !found {
			return nil // this term may be met
		}
		out = append(out, f)
	}
	return out
}

// nodeExpression describes one expression that no node meets, with the values that nodes have.
func (c *Cluster) nodeExpression(self Object, e corev1.NodeSelectorRequirement, field string) Finding {
	var keys, values []string
	for _, n := range list[*corev1.Node](c, "Node") {
		keys = slices.AppendSeq(keys, maps.Keys(n.Labels))
		if v, ok := n.Labels[e.Key]; ok && !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	f := Finding{Code: "NodeLabelMissing", Stage: StagePlacement, Object: self, Field: field,
		Value: expressionText(e)}
	f.Message = fmt.Sprintf("%s %s demands %s (%s), and no node meets that", self.Kind, self.Name, f.Value, field)
	switch near, how := Near(e.Key, keys); {
	case !slices.Contains(keys, e.Key) && near != "":
		f.Want = near
		f.Message += fmt.Sprintf(": no node has the label %s. Perhaps %s was meant; %s.", e.Key, near, how)
		f.Remedies = []Remedy{{Say: "set the key to " + near, Run: c.replaceCommand(self, field+".key", near)}}
	case !slices.Contains(keys, e.Key):
		f.Message += fmt.Sprintf(": no node has the label %s.", e.Key)
	default:
		f.Message += fmt.Sprintf(": nodes have %s=%s.", e.Key, strings.Join(values, ", "))
		compared := e.Operator == corev1.NodeSelectorOpGt || e.Operator == corev1.NodeSelectorOpLt
		for k, v := range e.Values {
			if near, how := Near(v, values); near != "" && f.Want == "" && !compared {
				f.Want = near
				f.Message += fmt.Sprintf(" Perhaps %s was meant instead of %s; %s.", near, v, how)
				f.Remedies = []Remedy{{Say: fmt.Sprintf("set %s instead of %s", near, v),
					Run: c.replaceCommand(self, fmt.Sprintf("%s.values[%d]", field, k), near)}}
			}
		}
		if f.Want == "" && len(values) == 1 && e.Operator == corev1.NodeSelectorOpIn {
			f.Want = values[0]
			f.Remedies = []Remedy{{Say: "set " + values[0], Run: c.replaceCommand(self, field+".values[0]", values[0])}}
		}
	}
	return f
}

// tolerations finds tolerations that nearly tolerate a node's taint: another key, value or effect.
func tolerations(c *Cluster, o metav1.Object, self Object) []Finding {
	spec, at := podSpecOf(o)
	if spec == nil || spec.NodeName != "" {
		return nil
	}
	var out []Finding
	for i := range spec.Tolerations {
		t := &spec.Tolerations[i]
		if strings.HasPrefix(t.Key, "node.kubernetes.io/") {
			continue // admission adds these
		}
		if f, ok := c.nearTaint(spec, t); ok {
			f.Object, f.Field = self, fmt.Sprintf("%s.tolerations[%d]", at, i)
			f.Message = fmt.Sprintf("%s %s tolerates %s (%s). %s", self.Kind, self.Name, f.Value, f.Field, f.Message)
			patch := fmt.Sprintf(`{"key":%s,"operator":"Equal","value":%s,"effect":%s}`, jsonText(f.Numbers["key"]),
				jsonText(f.Numbers["value"]), jsonText(f.Numbers["effect"]))
			if self.Kind != "DaemonSet" || t.Key != "" {
				f.Remedies = []Remedy{{Say: "tolerate " + f.Want, Run: c.setCommand(self, f.Field, patch)}}
			}
			out = append(out, f)
		}
	}
	return out
}

// nearTaint finds the taint that a toleration, which tolerates none, was probably meant for. Who
// has no node to go to is broken by it.
func (c *Cluster) nearTaint(spec *corev1.PodSpec, t *corev1.Toleration) (Finding, bool) {
	f := Finding{Code: "TolerationDiffers", Stage: StagePlacement, Value: tolerationText(t)}
	found := false
	for _, n := range list[*corev1.Node](c, "Node") {
		for i := range n.Spec.Taints {
			if tolerates(t, &n.Spec.Taints[i]) {
				return f, false
			}
		}
		left := untolerated(spec, n)
		if len(left) == 0 && fitsLabels(spec, n) {
			f.Severity = Threat // it has another node
		}
		for _, x := range left {
			// Kubernetes' own taints tell of the node
			if strings.HasPrefix(x.Key, "node.kubernetes.io/") || found || t.Key == "" {
				continue
			}
			how := differs(t, &x)
			if how == "" {
				continue
			}
			found = true
			f.Want, f.Related = x.ToString(), []Object{objectOf("Node", n)}
			f.Numbers = map[string]string{"key": x.Key, "value": x.Value, "effect": string(x.Effect), "taint": f.Want}
			f.Message = fmt.Sprintf("Node %s has the taint %s, which that does not tolerate: %s.", n.Name, f.Want, how)
		}
	}
	return f, found
}

func tolerationText(t *corev1.Toleration) string {
	s := t.Key
	if t.Operator == corev1.TolerationOpExists {
		s += " Exists"
	} else {
		s += "=" + t.Value
	}
	if t.Effect != "" {
		s += ":" + string(t.Effect)
	}
	return s
}

// differs says how a toleration nearly fits a taint; empty when it is about another one.
func differs(t *corev1.Toleration, x *corev1.Taint) string {
	exists := t.Operator == corev1.TolerationOpExists
	effect := t.Effect == "" || t.Effect == x.Effect
	switch {
	case t.Key == x.Key && !exists && t.Value != x.Value:
		return fmt.Sprintf("its value is %q, the taint's %q", t.Value, x.Value)
	case t.Key == x.Key && !effect:
		return fmt.Sprintf("its effect is %s, the taint's %s", t.Effect, x.Effect)
	case t.Key != x.Key:
		if _, how := Near(t.Key, []string{x.Key}); how != "" && (exists || t.Value == x.Value) {
			return fmt.Sprintf("its key is %s, the taint's %s", t.Key, x.Key)
		}
	}
	return ""
}
