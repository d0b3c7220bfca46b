package finding

import (
	"fmt"
	"maps"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

// asked is what a webhook is asked about.
type asked struct {
	rules              []admissionv1.RuleWithOperations
	namespaces, labels *metav1.LabelSelector
	narrowed           bool // by matchConditions, which are not looked at
}

// askedOf are what the webhooks of a configuration are asked about, in their order.
func askedOf(o metav1.Object) []asked {
	var out []asked
	switch x := o.(type) {
	case *admissionv1.ValidatingWebhookConfiguration:
		for _, w := range x.Webhooks {
			out = append(out, asked{w.Rules, w.NamespaceSelector, w.ObjectSelector, len(w.MatchConditions) > 0})
		}
	case *admissionv1.MutatingWebhookConfiguration:
		for _, w := range x.Webhooks {
			out = append(out, asked{w.Rules, w.NamespaceSelector, w.ObjectSelector, len(w.MatchConditions) > 0})
		}
	}
	return out
}

// newPods reports whether the rules are about the creation of Pods.
func (a asked) newPods() bool {
	among := func(list []string, words ...string) bool {
		return slices.ContainsFunc(words, func(s string) bool { return slices.Contains(list, s) })
	}
	return slices.ContainsFunc(a.rules, func(r admissionv1.RuleWithOperations) bool {
		return among(r.APIGroups, "", "*") && among(r.Resources, "pods", "*", "*/*") &&
			(slices.Contains(r.Operations, admissionv1.Create) ||
				slices.Contains(r.Operations, admissionv1.OperationAll))
	})
}

// about reports whether Pods with labels, in a namespace, are asked about.
func (a asked) about(namespace *corev1.Namespace, pod map[string]string) bool {
	matches := func(s *metav1.LabelSelector, have map[string]string) bool {
		if s == nil {
			return true
		}
		x, err := metav1.LabelSelectorAsSelector(s)
		return err == nil && x.Matches(labels.Set(have))
	}
	return !a.narrowed && a.newPods() && matches(a.namespaces, namespace.Labels) && matches(a.labels, pod)
}

// asksAboutItself finds webhooks that fail closed and are asked about the Pods that serve them:
// when the last of them has gone, none can be made again.
func asksAboutItself(c *Cluster, o metav1.Object, self Object) []Finding {
	var out []Finding
	clients := webhooksOf(o)
	for i, a := range askedOf(o) {
		w := clients[i]
		if w.config.Service == nil || !w.fail {
			continue
		}
		s, ok := get[*corev1.Service](c, "Service", w.config.Service.Namespace, w.config.Service.Name)
		n, read := get[*corev1.Namespace](c, "Namespace", "", w.config.Service.Namespace)
		if !ok || !read || len(s.Spec.Selector) == 0 || !a.about(n, s.Spec.Selector) {
			continue
		}
		serving := selected(s.Spec.Selector, c.labelledPods(s.Namespace))
		if len(serving) == 0 {
			continue // who serves it is not known
		}
		key := slices.Sorted(maps.Keys(s.Spec.Selector))[0]
		f := Finding{Code: "WebhookOfItself", Severity: Threat, Stage: StageCreation, Object: self,
			Field: fmt.Sprintf("webhooks[%d].objectSelector", i), Value: metav1.FormatLabelSelector(a.labels),
			Related: []Object{objectOf("Service", s), serving[len(serving)-1].object},
			Message: fmt.Sprintf("Webhook %s is asked about the Pods that serve it, those of Service %s in namespace "+
				"%s, and fails closed (failurePolicy Fail): while none of them is ready, none can be made.", w.name,
				s.Name, s.Namespace)}
		f.Remedies = []Remedy{{Say: "leave its own Pods out by objectSelector: it does not check them then",
			Run: []string{fmt.Sprintf("kubectl patch %s %s --type=json -p %s", self.lower(), self.Name,
				shellquote.Quoted(fmt.Sprintf(`[{"op":"add","path":"/webhooks/%d/objectSelector","value":`+
					`{"matchExpressions":[{"key":%s,"operator":"NotIn","values":[%s]}]}}]`, i, jsonText(key),
					jsonText(s.Spec.Selector[key]))))}}}
		if a.labels != nil && len(a.labels.MatchLabels)+len(a.labels.MatchExpressions) > 0 {
			f.Remedies[0].Run = nil // what it selects now is to stay
		}
		out = append(out, f)
	}
	return out
}
