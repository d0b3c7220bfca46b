package finding

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
	"github.com/gantry-project/gantry/internal/explain/workload"
)

// labelled is an object with labels that a selector may select.
type labelled struct {
	object Object
	labels map[string]string
}

// wantedLabels are the labels that a selector demands, each with one value; others of its
// expressions are left out.
func wantedLabels(s *metav1.LabelSelector) map[string]string {
	out := map[string]string{}
	if s == nil {
		return out
	}
	maps.Copy(out, s.MatchLabels)
	for _, e := range s.MatchExpressions {
		if e.Operator == metav1.LabelSelectorOpIn && len(e.Values) == 1 {
			out[e.Key] = e.Values[0]
		}
	}
	return out
}

// labelDifference is how the labels of the nearest object differ from those demanded.
type labelDifference struct {
	of                           labelled
	wantKey, wantValue, key, has string
	how                          string
}

// nearestLabels finds the object that a selector probably meant, by one label that differs: its
// value, or the spelling of its key. ok is false when none is near.
func nearestLabels(want map[string]string, among []labelled) (d labelDifference, ok bool) {
	for _, x := range among {
		var wrong []labelDifference
		for _, k := range slices.Sorted(maps.Keys(want)) {
			have, there := x.labels[k]
			if there && have == want[k] {
				continue
			}
			diff := labelDifference{of: x, wantKey: k, wantValue: want[k], key: k, has: have}
			if there {
				if _, how := Near(want[k], []string{have}); how != "" {
					diff.how = "its value: " + how
				} else {
					diff.how = "its value"
				}
			} else if near, how := Near(k, slices.Collect(maps.Keys(x.labels))); near != "" &&
				(x.labels[near] == want[k] || len(want) > 1) {
				diff.key, diff.has, diff.how = near, x.labels[near], "its key: "+how
			}
			wrong = append(wrong, diff)
		}
		// one label stands between them, and its spelling says that this one is meant
		if len(wrong) == 1 && wrong[0].how != "" && wrong[0].how != "its value" && !ok {
			d, ok = wrong[0], true
		}
	}
	return d, ok
}

// onlyOtherValue finds the one label of several whose value keeps a selector from all objects that
// have the rest, where these have one value there.
func onlyOtherValue(want map[string]string, among []labelled) (d labelDifference, ok bool) {
	for _, x := range among {
		var wrong []string
		for _, k := range slices.Sorted(maps.Keys(want)) {
			if x.labels[k] != want[k] {
				wrong = append(wrong, k)
			}
		}
		if len(want) < 2 || len(wrong) != 1 || x.labels[wrong[0]] == "" {
			continue
		}
		k := wrong[0]
		if ok && (d.key != k || d.has != x.labels[k]) {
			return labelDifference{}, false
		}
		d, ok = labelDifference{of: x, wantKey: k, wantValue: want[k], key: k, has: x.labels[k],
			how: "its value: all other labels are there"}, true
	}
	return d, ok
}

// selected returns those that a selector matches.
func selected(want map[string]string, among []labelled) []labelled {
	s := labels.SelectorFromSet(want)
	return slices.DeleteFunc(slices.Clone(among), func(x labelled) bool { return !s.Matches(labels.Set(x.labels)) })
}

// labelledPods are the Pods of a namespace, and the templates of workloads there, whose Pods may
// not exist yet.
func (c *Cluster) labelledPods(namespace string) []labelled {
	var out []labelled
	for _, p := range in[*corev1.Pod](c, "Pod", namespace) {
		out = append(out, labelled{objectOf("Pod", p), p.Labels})
	}
	for _, kind := range workloadKinds {
		for _, o := range in[metav1.Object](c, kind, namespace) {
			if t := workload.Template(o); t != nil {
				out = append(out, labelled{objectOf(kind, o), t.Labels})
			}
		}
	}
	return out
}

// selectsNothing finds a selector of Services, budgets and policies that no Pod has, and names the
// Pod that was probably meant.
func selectsNothing(c *Cluster, o metav1.Object, self Object) []Finding {
	var want map[string]string
	field, severity := "spec.selector", Broken
	switch x := o.(type) {
	case *corev1.Service:
		want = x.Spec.Selector
		if x.Spec.Type == corev1.ServiceTypeExternalName {
			return nil
		}
	case *policyv1.PodDisruptionBudget:
		want, severity = wantedLabels(x.Spec.Selector), Threat
	case *networkingv1.NetworkPolicy:
		want, field, severity = wantedLabels(&x.Spec.PodSelector), "spec.podSelector", Threat
	}
	if len(want) == 0 || !c.Read("Pod") || !c.whole(self.Namespace) {
		return nil
	}
	among := c.labelledPods(self.Namespace)
	if len(selected(want, among)) > 0 {
		return nil
	}
	f := Finding{Code: "SelectsNothing", Severity: severity, Stage: StageTraffic, Object: self, Field: field,
		Value: labels.Set(want).String()}
	f.Message = fmt.Sprintf("%s %s selects %s, and no Pod of namespace %s has that.", self.Kind, self.Name, f.Value,
		self.Namespace)
	c.selectedElsewhere(&f, want)
	c.onWorkloads(&f, want)
	d, ok := nearestLabels(want, among)
	if !ok {
		d, ok = onlyOtherValue(want, among)
	}
	if !ok {
		f.partlySelected(want, among, labelSelectorOf(o) == nil)
		return []Finding{f}
	}
	f.describe(d)
	fixed := maps.Clone(want)
	delete(fixed, d.wantKey)
	fixed[d.key] = d.has
	if s := labelSelectorOf(o); s != nil && s.MatchLabels[d.wantKey] == "" {
		f.Remedies = append(f.Remedies, c.selectIn(self, field, s, d))
		return []Finding{f}
	}
	patch := fmt.Sprintf(`{"spec":{"selector":{%s%s:%s}}}`, dropKey(d), jsonText(d.key), jsonText(d.has))
	if field != "spec.selector" || self.Kind == "PodDisruptionBudget" {
		name := strings.TrimPrefix(field, "spec.")
		patch = fmt.Sprintf(`{"spec":{%s:{"matchLabels":{%s%s:%s}}}}`, jsonText(name), dropKey(d), jsonText(d.key),
			jsonText(d.has))
	}
	f.Remedies = append(f.Remedies, Remedy{Say: fmt.Sprintf("select %s", labels.Set(fixed)),
		Run: []string{kubectl(self, "patch", "--type=merge -p "+shellquote.Quoted(patch))}})
	return []Finding{f}
}

// partlySelected names what has all of the labels that a selector demands but one: the selector
// demands too much, or a label is missing there. plain: the selector is a map of labels.
func (f *Finding) partlySelected(want map[string]string, among []labelled, plain bool) {
	for _, x := range slices.Backward(among) { // workloads stand behind Pods
		var lacks []string
		for _, k := range slices.Sorted(maps.Keys(want)) {
			if x.labels[k] != want[k] {
				lacks = append(lacks, k)
			}
		}
		if len(lacks) != 1 || len(want) < 2 {
			continue
		}
		k, has := lacks[0], "has no label "+lacks[0]
		if v, there := x.labels[k]; there {
			has = fmt.Sprintf("has %s=%s", k, v)
		}
		f.Related = append(f.Related, x.object)
		f.Message += fmt.Sprintf(" %s %s has all of it but %s=%s: it %s.", x.object.Kind, x.object.Name, k, want[k],
			has)
		if plain {
			patch := fmt.Sprintf(`{"spec":{"selector":{%s:null}}}`, jsonText(k))
			f.Remedies = append(f.Remedies, Remedy{Say: fmt.Sprintf("select without %s", k), Run: []string{
				kubectl(f.Object, "patch", "--type=merge -p "+shellquote.Quoted(patch))}})
		}
		return
	}
}

// labelSelectorOf is the label selector of a budget or policy; nil of a Service, which has labels
// alone.
func labelSelectorOf(o metav1.Object) *metav1.LabelSelector {
	switch x := o.(type) {
	case *policyv1.PodDisruptionBudget:
		return x.Spec.Selector
	case *networkingv1.NetworkPolicy:
		return &x.Spec.PodSelector
	}
	return nil
}

// selectedElsewhere names the namespaces whose Pods have the labels: a selector is about its own
// alone.
func (c *Cluster) selectedElsewhere(f *Finding, want map[string]string) {
	s := labels.SelectorFromSet(want)
	var namespaces []string
	for _, p := range slices.Concat(c.Others, list[*corev1.Pod](c, "Pod")) {
		if p.Namespace != f.Object.Namespace && s.Matches(labels.Set(p.Labels)) &&
			!slices.Contains(namespaces, p.Namespace) {
			namespaces = append(namespaces, p.Namespace)
			f.Related = append(f.Related, objectOf("Pod", p))
		}
	}
	slices.Sort(namespaces)
	if len(namespaces) > 0 {
		f.Message += fmt.Sprintf(" Pods with that are in namespace %s: a %s is about Pods of its own namespace only.",
			joined(namespaces), f.Object.Kind)
	}
}

// onWorkloads names workloads that have the labels themselves, and whose template does not: a
// selector is about Pods.
func (c *Cluster) onWorkloads(f *Finding, want map[string]string) {
	s := labels.SelectorFromSet(want)
	for _, kind := range workloadKinds {
		for _, o := range in[metav1.Object](c, kind, f.Object.Namespace) {
			t := workload.Template(o)
			if metav1.GetControllerOf(o) != nil || t == nil || !s.Matches(labels.Set(o.GetLabels())) {
				continue
			}
			own := wantedLabels(selectorOf(o))
			f.Message += fmt.Sprintf(" %s %s has it itself, and the Pods that it makes have %s: a selector is about "+
				"Pods.", kind, o.GetName(), labels.Set(t.Labels))
			f.Related = append(f.Related, objectOf(kind, o))
			template := map[string]any{"metadata": map[string]any{"labels": want}}
			raw, _ := json.Marshal(map[string]any{"spec": map[string]any{"template": template}}) // never fails
			f.Remedies = append(f.Remedies, Remedy{Say: fmt.Sprintf("give the Pods of %s the label too, in its "+
				"template: they are made anew", o.GetName()), Run: []string{kubectl(objectOf(kind, o), "patch",
				"--type=merge -p "+shellquote.Quoted(string(raw)))}})
			if f.Object.Kind == "Service" && len(own) > 0 {
				f.Want = labels.Set(own).String()
				f.Remedies = append(f.Remedies, Remedy{Say: "or select " + f.Want, Run: []string{kubectl(f.Object,
					"set selector", shellquote.Quoted(f.Want))}})
			}
			return
		}
	}
}

func dropKey(d labelDifference) string {
	if d.key == d.wantKey {
		return ""
	}
	return jsonText(d.wantKey) + ":null,"
}

// describe says which object was probably meant.
func (f *Finding) describe(d labelDifference) {
	f.Want = d.key + "=" + d.has
	f.Related = append(f.Related, d.of.object)
	f.Message += fmt.Sprintf(" %s %s has %s=%s instead of %s=%s: perhaps that was meant (%s).", d.of.object.Kind,
		d.of.object.Name, d.key, d.has, d.wantKey, d.wantValue, d.how)
}

// nodeLabelsMissing finds a nodeSelector, or a required node affinity, that no node has.
func nodeLabelsMissing(c *Cluster, o metav1.Object, self Object) []Finding {
	spec, at := podSpecOf(o)
	if spec == nil || spec.NodeName != "" || !c.Read("Node") {
		return nil
	}
	var among []labelled
	for _, n := range list[*corev1.Node](c, "Node") {
		among = append(among, labelled{objectOf("Node", n), n.Labels})
	}
	var out []Finding
	check := func(field string, want map[string]string) {
		if len(want) == 0 || len(among) == 0 || len(selected(want, among)) > 0 {
			return
		}
		f := Finding{Code: "NodeLabelMissing", Stage: StagePlacement, Object: self, Field: field,
			Value: labels.Set(want).String()}
		f.Message = fmt.Sprintf("%s %s wants a node with %s (%s), and none of the %d nodes has that.", self.Kind,
			self.Name, f.Value, field, len(among))
		if d, ok := nearestNode(want, among); ok {
			f.describe(d)
			f.Remedies = []Remedy{c.selectInstead(self, field, d)}
		}
		out = append(out, f)
	}
	check(at+".nodeSelector", c.ownSelector(o, spec))
	out = append(out, nodeExpressions(c, self, requiredTerms(spec), at+termsAt)...)
	return append(out, c.selectorAgainstAffinity(self, spec, c.ownSelector(o, spec), at)...)
}

// ownSelector is a node selector without what a Pod has from its RuntimeClass, of which the class
// is asked.
func (c *Cluster) ownSelector(o metav1.Object, spec *corev1.PodSpec) map[string]string {
	if _, isPod := o.(*corev1.Pod); !isPod || spec.RuntimeClassName == nil {
		return spec.NodeSelector
	}
	x, ok := get[*nodev1.RuntimeClass](c, "RuntimeClass", "", *spec.RuntimeClassName)
	if !ok || x.Scheduling == nil {
		return spec.NodeSelector
	}
	own := maps.Clone(spec.NodeSelector)
	maps.DeleteFunc(own, func(k, v string) bool { return x.Scheduling.NodeSelector[k] == v })
	return own
}

// nearestNode is nearestLabels for nodes, where a single label's value may be another word: values
// of the same key are then listed by the caller.
func nearestNode(want map[string]string, among []labelled) (labelDifference, bool) {
	if d, ok := nearestLabels(want, among); ok {
		return d, true
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		for _, x := range among {
			if have, ok := x.labels[k]; ok && have != want[k] {
				return labelDifference{of: x, wantKey: k, wantValue: want[k], key: k, has: have, how: "its value"}, true
			}
		}
	}
	return labelDifference{}, false
}

// podAffinityFindsNothing finds required Pod affinity whose selector no Pod has.
func podAffinityFindsNothing(c *Cluster, o metav1.Object, self Object) []Finding {
	spec, at := podSpecOf(o)
	if spec == nil || spec.Affinity == nil || spec.Affinity.PodAffinity == nil || spec.NodeName != "" {
		return nil
	}
	var out []Finding
	for i, t := range spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		want := wantedLabels(t.LabelSelector)
		if len(want) == 0 || t.NamespaceSelector != nil {
			continue
		}
		namespaces := t.Namespaces
		if len(namespaces) == 0 {
			namespaces = []string{self.Namespace}
		}
		if slices.ContainsFunc(namespaces, func(ns string) bool { return !c.knows(Object{"Pod", ns, ""}) }) {
			continue
		}
		var among []labelled
		for _, ns := range namespaces {
			among = append(among, c.labelledPods(ns)...)
		}
		own := labels.SelectorFromSet(want).Matches(labels.Set(o.GetLabels()))
		if len(selected(want, among)) > 0 || own {
			continue
		}
		f := Finding{Code: "SelectsNothing", Stage: StagePlacement, Object: self, Field: fmt.Sprintf(
			"%s.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[%d]", at, i),
			Value: labels.Set(want).String()}
		f.Message = fmt.Sprintf("%s %s must be placed beside Pods with %s, and namespace %s has none.", self.Kind,
			self.Name, f.Value, joined(namespaces))
		if d, ok := nearestLabels(want, among); ok {
			f.describe(d)
			f.Remedies = []Remedy{c.selectInstead(self, f.Field+".labelSelector.matchLabels", d)}
		}
		out = append(out, f)
	}
	return out
}
