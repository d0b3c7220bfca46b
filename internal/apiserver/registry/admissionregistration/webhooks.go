package admissionregistration

import (
	"fmt"
	"reflect"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func webhookTable(count func(runtime.Object) int) resourcedef.Table {
	return resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{
			printers.NameColumn(),
			printers.IntColumn("Webhooks",
				"Webhooks indicates the number of webhooks registered in this configuration"), printers.AgeColumn(),
		},
		Row: func(o runtime.Object, opt resourcedef.RowOptions) []any {
			m := o.(metav1.Object)
			return []any{m.GetName(), int64(count(o)), printers.TimestampSince(m.GetCreationTimestamp(), opt.Now)}
		},
	}
}

// defaultTimeoutSeconds is how many seconds a webhook has to answer when nothing is said.
const defaultTimeoutSeconds = 10

func mutatingWebhooks(x celCompilers) resourcedef.Kind {
	type configuration = admissionv1.MutatingWebhookConfiguration
	k := newKind("mutatingwebhookconfigurations",
		"MutatingWebhookConfiguration", typed.NewTypes[configuration, admissionv1.MutatingWebhookConfigurationList]())
	k.Rules = typed.Rules[configuration]{
		Default: func(c *configuration) {
			for i := range c.Webhooks {
				h := &c.Webhooks[i]
				typed.SetDefault(&h.FailurePolicy, admissionv1.Fail)
				defaultMatch(&h.MatchPolicy, &h.NamespaceSelector, &h.ObjectSelector)
				typed.SetDefault(&h.TimeoutSeconds, defaultTimeoutSeconds)
				typed.SetDefault(&h.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
				defaultWebhook(h.Rules, &h.ClientConfig)
			}
		},
		PrepareForUpdate: func(c, old *configuration) {
			// a null that becomes empty counts
			if !reflect.DeepEqual(c.Webhooks, old.Webhooks) {
				c.Generation = old.Generation + 1
			}
		},
		Validate: func(c, previous *configuration) field.ErrorList {
			if previous == nil {
				previous = &configuration{}
			}
			return checkWebhooks(x, mutatingAsWebhooks(c.Webhooks), mutatingAsWebhooks(previous.Webhooks))
		},
		Warn: func(c *configuration) []string { return warnWebhooks(mutatingAsWebhooks(c.Webhooks)) },
	}.Untyped()
	k.Table = webhookTable(func(o runtime.Object) int { return len(o.(*configuration).Webhooks) })
	return k
}

func validatingWebhooks(x celCompilers) resourcedef.Kind {
	type configuration = admissionv1.ValidatingWebhookConfiguration
	k := newKind("validatingwebhookconfigurations",
		"ValidatingWebhookConfiguration", typed.NewTypes[configuration,
			admissionv1.ValidatingWebhookConfigurationList]())
	k.Rules = typed.Rules[configuration]{
		Default: func(c *configuration) {
			for i := range c.Webhooks {
				h := &c.Webhooks[i]
				typed.SetDefault(&h.FailurePolicy, admissionv1.Fail)
				defaultMatch(&h.MatchPolicy, &h.NamespaceSelector, &h.ObjectSelector)
				typed.SetDefault(&h.TimeoutSeconds, defaultTimeoutSeconds)
				defaultWebhook(h.Rules, &h.ClientConfig)
			}
		},
		PrepareForUpdate: func(c, old *configuration) {
			// a null that becomes empty counts
			if !reflect.DeepEqual(c.Webhooks, old.Webhooks) {
				c.Generation = old.Generation + 1
			}
		},
		Validate: func(c, previous *configuration) field.ErrorList {
			if previous == nil {
				previous = &configuration{}
			}
			return checkWebhooks(x, validatingAsWebhooks(c.Webhooks), validatingAsWebhooks(previous.Webhooks))
		},
		Warn: func(c *configuration) []string { return warnWebhooks(validatingAsWebhooks(c.Webhooks)) },
	}.Untyped()
	k.Table = webhookTable(func(o runtime.Object) int { return len(o.(*configuration).Webhooks) })
	return k
}

func defaultWebhook(rules []admissionv1.RuleWithOperations, c *admissionv1.WebhookClientConfig) {
	for i := range rules {
		typed.SetDefault(&rules[i].Scope, admissionv1.AllScopes)
	}
	if c.Service != nil {
		const https = 443
		typed.SetDefault(&c.Service.Port, https)
	}
}

// webhookFields is what mutating and validating webhooks have in common; a mutating one may be
// asked again.
type webhookFields struct {
	admissionv1.ValidatingWebhook
	reinvocationPolicy *admissionv1.ReinvocationPolicyType
}

func validatingAsWebhooks(list []admissionv1.ValidatingWebhook) []webhookFields {
	var out []webhookFields
	for _, h := range list {
		out = append(out, webhookFields{ValidatingWebhook: h})
	}
	return out
}

func mutatingAsWebhooks(list []admissionv1.MutatingWebhook) []webhookFields {
	var out []webhookFields
	for _, h := range list {
		out = append(out, webhookFields{reinvocationPolicy: h.ReinvocationPolicy,
			ValidatingWebhook: admissionv1.ValidatingWebhook{
				Name: h.Name, ClientConfig: h.ClientConfig, Rules: h.Rules, FailurePolicy: h.FailurePolicy,
				MatchPolicy:       h.MatchPolicy,
				NamespaceSelector: h.NamespaceSelector, ObjectSelector: h.ObjectSelector, SideEffects: h.SideEffects,
				TimeoutSeconds:          h.TimeoutSeconds,
				AdmissionReviewVersions: h.AdmissionReviewVersions, MatchConditions: h.MatchConditions,
			}})
	}
	return out
}

// warnWebhooks tells of rules about kinds that no webhook is asked about.
func warnWebhooks(list []webhookFields) []string {
	var out []string
	for i, h := range list {
		for k, r := range h.Rules {
			for _, gr := range unreviewed(r.APIGroups, r.Resources) {
				out = append(out, fmt.Sprintf("webhooks[%d].rules[%d]: %s is excluded from admission webhooks; "+
					"this rule will have no effect", i, k, gr))
			}
		}
	}
	return out
}

// unreviewed returns the kinds that a rule names and no webhook is asked about, each once; none if
// the rule has a wildcard.
func unreviewed(groups, resources []string) []schema.GroupResource {
	if slices.Contains(groups, "*") || slices.Contains(resources, "*") {
		return nil
	}
	var out []schema.GroupResource
	for _, g := range groups {
		for _, r := range resources {
			gr := schema.GroupResource{Group: g, Resource: r}
			if slices.Contains(Reviews(), gr) && !slices.Contains(out, gr) {
				out = append(out, gr)
			}
		}
	}
	return out
}

// Reviews returns the kinds that are answered and never stored, about which no webhook and no
// policy is asked: one that does not answer would keep everybody from being let in.
func Reviews() []schema.GroupResource {
	return []schema.GroupResource{
		{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"},
		{Group: "authentication.k8s.io", Resource: "tokenreviews"},
		{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"},
		{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"},
		{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"},
		{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
	}
}
