package finding

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// selectorAt is a selector of an object, what it may select, and what follows when that is nothing.
type selectorAt struct {
	field    string
	selector *metav1.LabelSelector
	among    []labelled
	what     string // namespaces, Pods
	follows  string // the end of the sentence
	severity Severity
	near     Severity // where one label stands between it and something
	stage    Stage
}

// selectsNone finds a selector that selects nothing, and names what was probably meant. Selectors
// without a label that is demanded with one value are left alone.
func (c *Cluster) selectsNone(self Object, x selectorAt) []Finding {
	match, err := metav1.LabelSelectorAsSelector(x.selector)
	want := wantedLabels(x.selector)
	if err != nil || len(want) == 0 || slices.ContainsFunc(x.among, func(y labelled) bool {
		return match.Matches(labels.Set(y.labels))
	}) {
		return nil
	}
	f := Finding{Code: "SelectsNothing", Severity: x.severity, Stage: x.stage, Object: self, Field: x.field,
		Value: labels.Set(want).String(), Message: fmt.Sprintf("%s %s selects %s with %s (%s), and there is none: %s.",
			self.Kind, self.Name, x.what, labels.Set(want), x.field, x.follows)}
	if d, ok := nearestLabels(want, x.among); ok {
		f.Severity = x.near
		f.describe(d)
		f.Remedies = []Remedy{c.selectIn(self, x.field, x.selector, d)}
	}
	return []Finding{f}
}

// affinitySelectors finds terms of Pod affinity and anti-affinity that select nothing, but for the
// labels of terms that a Pod must be placed beside.
func affinitySelectors(c *Cluster, o metav1.Object, self Object) []Finding {
	spec, at := podSpecOf(o)
	if spec == nil || !c.Read("Pod") {
		return nil
	}
	var out []Finding
	for _, t := range affinityTerms(spec.Affinity, at+".affinity") {
		s := selectorAt{severity: Note, near: Threat, stage: StagePlacement, follows: "the term has no effect"}
		if t.beside && !t.preferred {
			s.severity, s.near, s.follows = Broken, Broken, "no node fits"
		}
		if n := t.term.NamespaceSelector; n != nil && c.Read("Namespace") {
			s.field, s.selector, s.what = t.at+".namespaceSelector", n, "namespaces"
			s.among = c.labelledNamespaces()
			out = append(out, c.selectsNone(self, s)...)
		}
		if t.beside && !t.preferred || t.term.NamespaceSelector != nil || len(t.term.Namespaces) > 0 ||
			!c.whole(self.Namespace) {
			continue
		}
		s.field, s.selector, s.what = t.at+".labelSelector", t.term.LabelSelector, "Pods"
		s.among = append(c.labelledPods(self.Namespace), labelled{self, labelsOfPods(o)})
		out = append(out, c.selectsNone(self, s)...)
	}
	return out
}

// labelledObjects are the objects of a namespace, or of all that were read where that is empty.
func (c *Cluster) labelledObjects(namespace string) []labelled {
	var out []labelled
	for _, kind := range c.sortedKinds() {
		for _, o := range c.Objects[kind] {
			if namespace == "" || o.GetNamespace() == namespace {
				out = append(out, labelled{objectOf(kind, o), o.GetLabels()})
			}
		}
	}
	return out
}

// objectSelectors finds webhooks and admission policies that are about labels which no object has
// and one nearly has; what no object is near to may come.
func objectSelectors(c *Cluster, o metav1.Object, self Object) []Finding {
	var out []Finding
	look := func(field string, s *metav1.LabelSelector) {
		if s == nil || len(wantedLabels(s)) == 0 {
			return
		}
		for _, f := range c.selectsNone(self, selectorAt{field: field, selector: s, among: c.labelledObjects(""),
			what: "objects", follows: "it is asked about none", severity: Note, near: Threat, stage: StageCreation}) {
			if f.Severity == Threat {
				out = append(out, f)
			}
		}
	}
	switch x := o.(type) {
	case *admissionv1.ValidatingWebhookConfiguration:
		for i, w := range x.Webhooks {
			look(fmt.Sprintf("webhooks[%d].objectSelector", i), w.ObjectSelector)
		}
	case *admissionv1.MutatingWebhookConfiguration:
		for i, w := range x.Webhooks {
			look(fmt.Sprintf("webhooks[%d].objectSelector", i), w.ObjectSelector)
		}
	}
	if m, at := matchesOf(o); m != nil {
		look(at+".objectSelector", m.ObjectSelector)
		for i, r := range m.ExcludeResourceRules {
			for j, name := range r.Resources {
				if f, ok := c.servedBy(self, name, r.APIGroups, ruleAt{fmt.Sprintf("%s.excludeResourceRules[%d]", at,
					i), j}); ok {
					out = append(out, f)
				}
			}
		}
	}
	return out
}

// egressPorts finds a port's name in what a policy lets its Pods reach that no container has, and
// one nearly has.
func egressPorts(c *Cluster, o metav1.Object, self Object) []Finding {
	p, ok := o.(*networkingv1.NetworkPolicy)
	if !ok || !c.Read("Pod") {
		return nil
	}
	var have []string
	for _, kind := range append([]string{"Pod"}, workloadKinds...) {
		for _, x := range c.Objects[kind] {
			spec, _ := podSpecOf(x)
			for i := range spec.Containers {
				for _, q := range spec.Containers[i].Ports {
					have = append(have, q.Name)
				}
			}
		}
	}
	var out []Finding
	for i, r := range p.Spec.Egress {
		for j, q := range r.Ports {
			if q.Port == nil || q.Port.Type != intstr.String || slices.Contains(have, q.Port.StrVal) {
				continue
			}
			near, how := Near(q.Port.StrVal, have)
			if near == "" {
				continue // it may be that of Pods that nobody asked about
			}
			f := Finding{Code: "PolicyPortMissing", Severity: Threat, Stage: StageTraffic, Object: self,
				Field: fmt.Sprintf("spec.egress[%d].ports[%d].port", i, j), Value: q.Port.StrVal, Want: near,
				Message: fmt.Sprintf("NetworkPolicy %s lets traffic pass to port %s, and no container has a port of "+
					"that name. There is %s: perhaps that was meant; %s.", self.Name, q.Port.StrVal, near, how)}
			f.setTo(c, jsonText(near))
			out = append(out, f)
		}
	}
	return out
}

// groupParts finds what a PodGroup, or a Job whose Pods are placed together, names and no node or
// Workload has: a topology's label, a template.
func groupParts(c *Cluster, o metav1.Object, self Object) []Finding {
	var out []Finding
	topology := func(field, key string) {
		if len(c.Objects["Node"]) > 0 {
			out = append(out, c.topologyKey(self, field, key, true)...)
		}
	}
	together := func(s *batchv1.JobSpec, at string) {
		if s.Scheduling == nil || s.Scheduling.SchedulingConstraints == nil {
			return
		}
		for i, t := range s.Scheduling.SchedulingConstraints.Topology {
			topology(fmt.Sprintf("%s.scheduling.schedulingConstraints.topology[%d].key", at, i), t.Key)
		}
	}
	switch x := o.(type) {
	case *schedulingv1beta1.PodGroup:
		if s := x.Spec.SchedulingConstraints; s != nil {
			for i, t := range s.Topology {
				topology(fmt.Sprintf("spec.schedulingConstraints.topology[%d].key", i), t.Key)
			}
		}
		out = append(out, c.templateOfWorkload(x, self)...)
	case *batchv1.Job:
		together(&x.Spec, "spec")
	case *batchv1.CronJob:
		together(&x.Spec.JobTemplate.Spec, "spec.jobTemplate.spec")
	}
	return out
}

// templateOfWorkload finds a template that a PodGroup names and its Workload does not have.
func (c *Cluster) templateOfWorkload(g *schedulingv1beta1.PodGroup, self Object) []Finding {
	r := g.Spec.WorkloadRef
	if r == nil {
		return nil
	}
	w, ok := get[*schedulingv1beta1.Workload](c, "Workload", g.Namespace, r.WorkloadName)
	if !ok {
		return nil
	}
	var have []string
	for _, t := range w.Spec.PodGroupTemplates {
		have = append(have, t.Name)
	}
	if slices.Contains(have, r.TemplateName) || len(w.Spec.CompositePodGroupTemplates) > 0 {
		return nil
	}
	f := c.partMissing(self, part{"spec.workloadRef.templateName", r.TemplateName, "template", have, Threat})
	f.Message = fmt.Sprintf("PodGroup %s is of template %s of Workload %s, which has %s.", self.Name, r.TemplateName,
		w.Name, orNone(have, "none"))
	return []Finding{f}
}

// classTolerations finds tolerations of a RuntimeClass that are nearly for a node's taint.
func classTolerations(c *Cluster, s *corev1.PodSpec, self Object) []Finding {
	var out []Finding
	for i := range s.Tolerations {
		if f, ok := c.nearTaint(s, &s.Tolerations[i]); ok {
			f.Object, f.Field = self, fmt.Sprintf("scheduling.tolerations[%d]", i)
			f.Message = fmt.Sprintf("RuntimeClass %s tolerates %s (%s). %s", self.Name, f.Value, f.Field, f.Message)
			out = append(out, f)
		}
	}
	return out
}

// preferredNodes notes preferences for nodes that no node meets; a key that one nearly has is worth
// more than a note.
func (c *Cluster) preferredNodes(spec *corev1.PodSpec, self Object, at string) []Finding {
	if spec.Affinity.NodeAffinity == nil {
		return nil
	}
	nodes := list[*corev1.Node](c, "Node")
	var out []Finding
	for i, t := range spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		for j, e := range t.Preference.MatchExpressions {
			if slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return fulfils(n.Labels, e) }) {
				continue
			}
			f := c.nodeExpression(self, e, fmt.Sprintf("%s.preferredDuringSchedulingIgnoredDuringExecution[%d]."+
				"preference.matchExpressions[%d]", at, i, j))
			there := slices.ContainsFunc(nodes, func(n *corev1.Node) bool { _, ok := n.Labels[e.Key]; return ok })
			if f.Severity = Note; f.Want != "" && !there {
				f.Severity = Threat
			}
			f.Message = strings.Replace(f.Message, "demands", "prefers", 1)
			out = append(out, f)
		}
	}
	return out
}
