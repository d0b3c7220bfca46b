package admissionregistration

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
)

func webhookTable(count func(runtime.Object) int) kind.Table {
	return kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Int("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"), column.Age(),
		},
		Row: func(o runtime.Object, opt kind.RowOptions) []any {
			m := o.(metav1.Object)
			return []any{m.GetName(), int64(count(o)), column.Since(m.GetCreationTimestamp(), opt.Now)}
		},
	}
}

// usualTimeout is how many seconds a webhook has to answer when nothing is said.
const usualTimeout = 10

func mutatingWebhooks(x compilers) kind.Kind {
	type configuration = admissionv1.MutatingWebhookConfiguration
	k := names("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", row.Types[configuration, admissionv1.MutatingWebhookConfigurationList]())
	k.Rules = row.Rules[configuration]{
		Default: func(c *configuration) {
			for i := range c.Webhooks {
				h := &c.Webhooks[i]
				row.OrElse(&h.FailurePolicy, admissionv1.Fail)
				defaultMatch(&h.MatchPolicy, &h.NamespaceSelector, &h.ObjectSelector)
				row.OrElse(&h.TimeoutSeconds, usualTimeout)
				row.OrElse(&h.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
				defaultHook(h.Rules, &h.ClientConfig)
			}
		},
		Check: func(c, was *configuration) field.ErrorList {
			if was == nil {
				was = &configuration{}
			}
			return checkWebhooks(x, mutating(c.Webhooks), mutating(was.Webhooks))
		},
	}.Rules()
	k.Table = webhookTable(func(o runtime.Object) int { return len(o.(*configuration).Webhooks) })
	return k
}

func validatingWebhooks(x compilers) kind.Kind {
	type configuration = admissionv1.ValidatingWebhookConfiguration
	k := names("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", row.Types[configuration, admissionv1.ValidatingWebhookConfigurationList]())
	k.Rules = row.Rules[configuration]{
		Default: func(c *configuration) {
			for i := range c.Webhooks {
				h := &c.Webhooks[i]
				row.OrElse(&h.FailurePolicy, admissionv1.Fail)
				defaultMatch(&h.MatchPolicy, &h.NamespaceSelector, &h.ObjectSelector)
				row.OrElse(&h.TimeoutSeconds, usualTimeout)
				defaultHook(h.Rules, &h.ClientConfig)
			}
		},
		Check: func(c, was *configuration) field.ErrorList {
			if was == nil {
				was = &configuration{}
			}
			return checkWebhooks(x, validatingHooks(c.Webhooks), validatingHooks(was.Webhooks))
		},
	}.Rules()
	k.Table = webhookTable(func(o runtime.Object) int { return len(o.(*configuration).Webhooks) })
	return k
}

func defaultHook(rules []admissionv1.RuleWithOperations, c *admissionv1.WebhookClientConfig) {
	for i := range rules {
		row.OrElse(&rules[i].Scope, admissionv1.AllScopes)
	}
	if c.Service != nil {
		const https = 443
		row.OrElse(&c.Service.Port, https)
	}
}

// hook is what mutating and validating webhooks have in common; a mutating one may be asked again.
type hook struct {
	admissionv1.ValidatingWebhook
	again *admissionv1.ReinvocationPolicyType
}

func validatingHooks(list []admissionv1.ValidatingWebhook) []hook {
	var out []hook
	for _, h := range list {
		out = append(out, hook{ValidatingWebhook: h})
	}
	return out
}

func mutating(list []admissionv1.MutatingWebhook) []hook {
	var out []hook
	for _, h := range list {
		out = append(out, hook{again: h.ReinvocationPolicy, ValidatingWebhook: admissionv1.ValidatingWebhook{
			Name: h.Name, ClientConfig: h.ClientConfig, Rules: h.Rules, FailurePolicy: h.FailurePolicy, MatchPolicy: h.MatchPolicy,
			NamespaceSelector: h.NamespaceSelector, ObjectSelector: h.ObjectSelector, SideEffects: h.SideEffects, TimeoutSeconds: h.TimeoutSeconds,
			AdmissionReviewVersions: h.AdmissionReviewVersions, MatchConditions: h.MatchConditions,
		}})
	}
	return out
}
