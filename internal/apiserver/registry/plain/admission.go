package plain

import (
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// Admission are the rows of admissionregistration.k8s.io/v1.
func Admission() []kind.Kind {
	return []kind.Kind{mutatingWebhooks(), validatingWebhooks(), validatingPolicies(), validatingBindings(), mutatingPolicies(), mutatingBindings()}
}

func admissionKind(resource, kindName string, t kind.Types) kind.Kind {
	return kind.Kind{
		Group: admissionv1.GroupName, Version: "v1", Resource: resource, Singular: strings.ToLower(kindName), Kind: kindName,
		Names: kind.Names{Categories: []string{"api-extensions"}}, Types: t,
	}
}

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

func mutatingWebhooks() kind.Kind {
	k := admissionKind("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", types[admissionv1.MutatingWebhookConfiguration, admissionv1.MutatingWebhookConfigurationList]())
	k.Rules.AllowUnconditionalUpdate = true
	k.Rules.Default = func(o runtime.Object) {
		hooks := o.(*admissionv1.MutatingWebhookConfiguration).Webhooks
		for i := range hooks {
			h := &hooks[i]
			defaultMatch(&h.FailurePolicy, &h.MatchPolicy, &h.NamespaceSelector, &h.ObjectSelector)
			orElse(&h.TimeoutSeconds, 10)
			orElse(&h.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
			defaultHook(h.Rules, &h.ClientConfig)
		}
	}
	k.Table = webhookTable(func(o runtime.Object) int { return len(o.(*admissionv1.MutatingWebhookConfiguration).Webhooks) })
	return k
}

func validatingWebhooks() kind.Kind {
	k := admissionKind("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", types[admissionv1.ValidatingWebhookConfiguration, admissionv1.ValidatingWebhookConfigurationList]())
	k.Rules.AllowUnconditionalUpdate = true
	k.Rules.Default = func(o runtime.Object) {
		hooks := o.(*admissionv1.ValidatingWebhookConfiguration).Webhooks
		for i := range hooks {
			h := &hooks[i]
			defaultMatch(&h.FailurePolicy, &h.MatchPolicy, &h.NamespaceSelector, &h.ObjectSelector)
			orElse(&h.TimeoutSeconds, 10)
			defaultHook(h.Rules, &h.ClientConfig)
		}
	}
	k.Table = webhookTable(func(o runtime.Object) int { return len(o.(*admissionv1.ValidatingWebhookConfiguration).Webhooks) })
	return k
}

func defaultMatch(fail **admissionv1.FailurePolicyType, match **admissionv1.MatchPolicyType, ns, obj **metav1.LabelSelector) {
	orElse(fail, admissionv1.Fail)
	orElse(match, admissionv1.Equivalent)
	orElse(ns, metav1.LabelSelector{})
	orElse(obj, metav1.LabelSelector{})
}

func defaultHook(rules []admissionv1.RuleWithOperations, c *admissionv1.WebhookClientConfig) {
	for i := range rules {
		orElse(&rules[i].Scope, admissionv1.AllScopes)
	}
	if c.Service != nil {
		orElse(&c.Service.Port, 443)
	}
}

// defaultResources fills in what a policy's match leaves open.
func defaultResources(m *admissionv1.MatchResources) {
	if m == nil {
		return
	}
	orElse(&m.MatchPolicy, admissionv1.Equivalent)
	orElse(&m.NamespaceSelector, metav1.LabelSelector{})
	orElse(&m.ObjectSelector, metav1.LabelSelector{})
	for _, rules := range [][]admissionv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range rules {
			orElse(&rules[i].Scope, admissionv1.AllScopes)
		}
	}
}

func defaultParam(p *admissionv1.ParamRef) {
	if p != nil {
		orElse(&p.ParameterNotFoundAction, admissionv1.DenyAction)
	}
}

func validatingPolicies() kind.Kind {
	k := admissionKind("validatingadmissionpolicies", "ValidatingAdmissionPolicy", types[admissionv1.ValidatingAdmissionPolicy, admissionv1.ValidatingAdmissionPolicyList]())
	k.Types.HasStatus = true
	k.Rules.Default = func(o runtime.Object) {
		s := &o.(*admissionv1.ValidatingAdmissionPolicy).Spec
		orElse(&s.FailurePolicy, admissionv1.Fail)
		defaultResources(s.MatchConstraints)
	}
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Int("Validations", "Validations indicates the number of validation rules defined in this configuration"),
			column.Def("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"), column.Age(),
		},
		Row: row(func(p *admissionv1.ValidatingAdmissionPolicy, o kind.RowOptions) []any {
			return []any{p.Name, int64(len(p.Spec.Validations)), paramKind(p.Spec.ParamKind), column.Since(p.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func mutatingPolicies() kind.Kind {
	k := admissionKind("mutatingadmissionpolicies", "MutatingAdmissionPolicy", types[admissionv1.MutatingAdmissionPolicy, admissionv1.MutatingAdmissionPolicyList]())
	k.Rules.Default = func(o runtime.Object) {
		s := &o.(*admissionv1.MutatingAdmissionPolicy).Spec
		orElse(&s.FailurePolicy, admissionv1.Fail)
		orText(&s.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
		defaultResources(s.MatchConstraints)
	}
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Int("Mutations", "Mutations indicates the number of mutations rules defined in this configuration"),
			column.Def("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"), column.Age(),
		},
		Row: row(func(p *admissionv1.MutatingAdmissionPolicy, o kind.RowOptions) []any {
			return []any{p.Name, int64(len(p.Spec.Mutations)), paramKind(p.Spec.ParamKind), column.Since(p.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func paramKind(p *admissionv1.ParamKind) string {
	if p == nil {
		return "<unset>"
	}
	return p.APIVersion + "/" + p.Kind
}

func bindingTable(parts func(runtime.Object) (string, *admissionv1.ParamRef)) kind.Table {
	return kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Def("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to"),
			column.Def("ParamRef", "ParamRef indicates the param resource which sets the configration param"), column.Age(),
		},
		Row: func(o runtime.Object, opt kind.RowOptions) []any {
			policy, ref := parts(o)
			text := "<unset>"
			if ref != nil {
				text = strings.Trim(ref.Namespace+"/"+ref.Name, "/")
			}
			m := o.(metav1.Object)
			return []any{m.GetName(), policy, text, column.Since(m.GetCreationTimestamp(), opt.Now)}
		},
	}
}

func validatingBindings() kind.Kind {
	k := admissionKind("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", types[admissionv1.ValidatingAdmissionPolicyBinding, admissionv1.ValidatingAdmissionPolicyBindingList]())
	k.Rules.Default = func(o runtime.Object) {
		s := &o.(*admissionv1.ValidatingAdmissionPolicyBinding).Spec
		defaultResources(s.MatchResources)
		defaultParam(s.ParamRef)
	}
	k.Table = bindingTable(func(o runtime.Object) (string, *admissionv1.ParamRef) {
		s := o.(*admissionv1.ValidatingAdmissionPolicyBinding).Spec
		return s.PolicyName, s.ParamRef
	})
	return k
}

func mutatingBindings() kind.Kind {
	k := admissionKind("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", types[admissionv1.MutatingAdmissionPolicyBinding, admissionv1.MutatingAdmissionPolicyBindingList]())
	k.Rules.Default = func(o runtime.Object) {
		s := &o.(*admissionv1.MutatingAdmissionPolicyBinding).Spec
		defaultResources(s.MatchResources)
		defaultParam(s.ParamRef)
	}
	k.Table = bindingTable(func(o runtime.Object) (string, *admissionv1.ParamRef) {
		s := o.(*admissionv1.MutatingAdmissionPolicyBinding).Spec
		return s.PolicyName, s.ParamRef
	})
	return k
}
