package finding

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// expression is one of an object of admission, with its field.
type expression struct{ field, text string }

// expressionsOf are the expressions of an object of admission that are evaluated for a request.
func expressionsOf(o metav1.Object) []expression {
	var out []expression
	conditions := func(at string, list []admissionv1.MatchCondition) {
		for i, m := range list {
			out = append(out, expression{fmt.Sprintf("%smatchConditions[%d].expression", at, i), m.Expression})
		}
	}
	variables := func(list []admissionv1.Variable) {
		for i, v := range list {
			out = append(out, expression{fmt.Sprintf("spec.variables[%d].expression", i), v.Expression})
		}
	}
	switch x := o.(type) {
	case *admissionv1.ValidatingWebhookConfiguration:
		for i, w := range x.Webhooks {
			conditions(fmt.Sprintf("webhooks[%d].", i), w.MatchConditions)
		}
	case *admissionv1.MutatingWebhookConfiguration:
		for i, w := range x.Webhooks {
			conditions(fmt.Sprintf("webhooks[%d].", i), w.MatchConditions)
		}
	case *admissionv1.ValidatingAdmissionPolicy:
		conditions("spec.", x.Spec.MatchConditions)
		variables(x.Spec.Variables)
		for i, v := range x.Spec.Validations {
			out = append(out, expression{fmt.Sprintf("spec.validations[%d].expression", i), v.Expression},
				expression{fmt.Sprintf("spec.validations[%d].messageExpression", i), v.MessageExpression})
		}
		for i, a := range x.Spec.AuditAnnotations {
			out = append(out, expression{fmt.Sprintf("spec.auditAnnotations[%d].valueExpression", i),
				a.ValueExpression})
		}
	case *admissionv1.MutatingAdmissionPolicy:
		conditions("spec.", x.Spec.MatchConditions)
		variables(x.Spec.Variables)
		for i, m := range x.Spec.Mutations {
			if m.ApplyConfiguration != nil {
				out = append(out, expression{fmt.Sprintf("spec.mutations[%d].applyConfiguration.expression", i),
					m.ApplyConfiguration.Expression})
			}
			if m.JSONPatch != nil {
				out = append(out, expression{fmt.Sprintf("spec.mutations[%d].jsonPatch.expression", i),
					m.JSONPatch.Expression})
			}
		}
	}
	return slices.DeleteFunc(out, func(e expression) bool { return e.text == "" })
}

// failedExpressions blames the expressions that could not be evaluated for what an object makes, by
// the words of its refusal: those of each object of admission that has them.
func (c *Cluster) failedExpressions(self Object, words string) []Finding {
	m := expressionError.FindStringSubmatch(words)
	if m == nil {
		return nil
	}
	why := strings.TrimRight(m[2], ".]")
	var out []Finding
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"} {
		for _, o := range c.Objects[kind] {
			at := objectOf(kind, o)
			for _, e := range expressionsOf(o) {
				if strings.TrimSpace(e.text) != strings.TrimSpace(m[1]) {
					continue
				}
				out = append(out, Finding{Code: "ExpressionWrong", Stage: StageCreation, Object: at, Field: e.field,
					Value: e.text, Related: []Object{self}, Numbers: map[string]string{"error": why},
					Message: fmt.Sprintf("%s of %s %s cannot be evaluated for what %s %s makes (%s), and so the "+
						"request is refused, whatever it would say: %s.", e.field, kind, at.Name, self.Kind,
						self.Name, why, e.text),
					Remedies: []Remedy{{Say: fmt.Sprintf("mend the expression: it reads what %s does not have; "+
						"has(...) asks first", self)}}})
			}
		}
	}
	return out
}
