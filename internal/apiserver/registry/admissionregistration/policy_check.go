package admissionregistration

import (
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/client-go/util/jsonpath"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// policyParts are what validating and mutating policies have in common.
type policyParts struct {
	fail       *admissionv1.FailurePolicyType
	params     *admissionv1.ParamKind
	match      *admissionv1.MatchResources
	conditions []admissionv1.MatchCondition
	variables  []admissionv1.Variable
	texts      []string // every expression
	patches    bool
}

func validatingParts(p *admissionv1.ValidatingAdmissionPolicy) policyParts {
	s := &p.Spec
	out := policyParts{fail: s.FailurePolicy, params: s.ParamKind, match: s.MatchConstraints,
		conditions: s.MatchConditions, variables: s.Variables}
	for _, v := range s.Validations {
		out.texts = append(out.texts, v.Expression, v.MessageExpression)
	}
	for _, a := range s.AuditAnnotations {
		out.texts = append(out.texts, a.ValueExpression)
	}
	return out
}

func mutatingParts(p *admissionv1.MutatingAdmissionPolicy) policyParts {
	s := &p.Spec
	out := policyParts{fail: s.FailurePolicy, params: s.ParamKind, match: s.MatchConstraints,
		conditions: s.MatchConditions, variables: s.Variables, patches: true}
	for _, m := range s.Mutations {
		if m.ApplyConfiguration != nil {
			out.texts = append(out.texts, m.ApplyConfiguration.Expression)
		}
		if m.JSONPatch != nil {
			out.texts = append(out.texts, m.JSONPatch.Expression)
		}
	}
	return out
}

func (p policyParts) stored() sets.Set[string] {
	out := sets.New(p.texts...)
	for _, c := range p.conditions {
		out.Insert(c.Expression)
	}
	for _, v := range p.variables {
		out.Insert(v.Expression)
	}
	return out
}

// checker validates a kind of policy: what both kinds have, then what own says.
func checker[T any](x celCompilers, split func(*T) policyParts,
	own func(*expressionValidator, *T)) func(o, previous *T) field.ErrorList {
	return func(o, previous *T) field.ErrorList {
		var f typed.Errors
		p := split(o)
		e := &expressionValidator{
			Errors: &f, compiler: x.simple(),
			declared: plugincel.OptionalVariableDeclarations{HasParams: p.params != nil, HasAuthorizer: true},
		}
		if previous != nil {
			e.stored = split(previous).stored()
		}
		checkParts(e, p)
		e.declared.HasPatchTypes = p.patches
		e.variables(p.variables, spec().Child("variables"))
		own(e, o)
		return f.List()
	}
}

func checkParts(x *expressionValidator, p policyParts) {
	if p.fail == nil {
		x.Required(spec().Child("failurePolicy"), "")
	} else {
		typed.Supported(x.Errors, spec().Child("failurePolicy"), *p.fail, admissionv1.Fail, admissionv1.Ignore)
	}
	if p.params != nil {
		checkParamKind(x.Errors, p.params, spec().Child("paramKind"))
	}
	match := spec().Child("matchConstraints")
	if p.match == nil {
		x.Required(match, "")
	} else {
		checkMatch(x.Errors, p.match, match)
		if len(p.match.ResourceRules) == 0 {
			x.Required(match.Child("resourceRules"), "") // it says what types expressions see
		}
	}
	x.conditions(p.conditions, spec().Child("matchConditions"))
}

func checkParamKind(f *typed.Errors, p *admissionv1.ParamKind, at *field.Path) {
	if p.APIVersion == "" {
		f.Required(at.Child("apiVersion"), "")
	} else if gv, err := schema.ParseGroupVersion(p.APIVersion); err != nil {
		f.Invalid(at.Child("apiVersion"), p.APIVersion, err.Error())
	} else {
		checkGroupVersion(f, gv, p.APIVersion, at.Child("apiVersion"))
	}
	if p.Kind == "" {
		f.Required(at.Child("kind"), "")
	} else if bad := validation.IsDNS1035Label(strings.ToLower(p.Kind)); len(bad) > 0 {
		f.Invalid(at.Child("kind"), p.Kind, "may have mixed case, but should otherwise match: "+strings.Join(bad, ","))
	}
}

// checkGroupVersion wants a group that is a subdomain and a version that is a label.
func checkGroupVersion(f *typed.Errors, gv schema.GroupVersion, text string, at *field.Path) {
	if bad := validation.IsDNS1123Subdomain(gv.Group); gv.Group != "" && len(bad) > 0 {
		f.Invalid(at, gv.Group, strings.Join(bad, ","))
	}
	if gv.Version == "" {
		f.Invalid(at, text, "version must be specified")
	} else if bad := validation.IsDNS1035Label(gv.Version); len(bad) > 0 {
		f.Invalid(at, gv.Version, strings.Join(bad, ","))
	}
}

const atLeastOne = "validations or auditAnnotations must contain at least one item"

func checkValidations(x *expressionValidator, p *admissionv1.ValidatingAdmissionPolicy) {
	validations, annotations := spec().Child("validations"), spec().Child("auditAnnotations")
	if len(p.Spec.Validations) == 0 && len(p.Spec.AuditAnnotations) == 0 {
		x.Required(validations, atLeastOne)
		x.Required(annotations, atLeastOne)
		return
	}
	for i := range p.Spec.Validations {
		checkValidation(x, &p.Spec.Validations[i], validations.Index(i))
	}
	checkAnnotations(x, p, annotations)
}

func checkValidation(x *expressionValidator, v *admissionv1.Validation, at *field.Path) {
	breaks := func(s string) bool { return strings.ContainsAny(s, "\n\r") }
	expression, message := strings.TrimSpace(v.Expression), strings.TrimSpace(v.Message)
	if expression == "" {
		x.Required(at.Child("expression"), "expression is not specified")
	} else {
		x.compile(&validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason},
			at.Child("expression"))
	}
	if v.MessageExpression != "" {
		if strings.TrimSpace(v.MessageExpression) == "" {
			x.Invalid(at.Child("messageExpression"), v.MessageExpression, "must be non-empty if specified")
		} else {
			x.compile(&validating.MessageExpressionCondition{MessageExpression: v.MessageExpression},
				at.Child("messageExpression"))
		}
	}
	switch {
	case v.Message != "" && message == "":
		x.Invalid(at.Child("message"), v.Message, "message must be non-empty if specified")
	case breaks(message):
		x.Invalid(at.Child("message"), v.Message, "must not contain line breaks")
	case breaks(expression) && message == "":
		x.Required(at.Child("message"), "message must be specified if expression contains line breaks")
	}
	if v.Reason != nil {
		typed.Supported(x.Errors, at.Child("reason"), *v.Reason,
			metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge)
	}
}

func checkPolicyStatus(p, _ *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	var f typed.Errors
	at := field.NewPath("status")
	if t := p.Status.TypeChecking; t != nil {
		for i, w := range t.ExpressionWarnings {
			one := at.Child("typeChecking", "expressionWarnings").Index(i)
			if w.Warning == "" {
				f.Required(one.Child("warning"), "")
			}
			checkFieldRef(&f, w.FieldRef, one.Child("fieldRef"))
		}
	}
	f.Add(metavalidation.ValidateConditions(p.Status.Conditions, at.Child("conditions"))...)
	return f.List()
}

// checkFieldRef checks that the place of an expression is a JSONPath.
func checkFieldRef(f *typed.Errors, ref string, at *field.Path) {
	ref = strings.TrimSpace(ref)
	if ref == "" {
		f.Required(at, "")
		return
	}
	if err := jsonpath.New("spec").Parse("{" + ref + "}"); err != nil {
		f.Invalid(at, ref, "invalid JSONPath: "+err.Error())
	}
}

// Limits of audit annotations.
const (
	maxAuditAnnotations      = 20
	maxAuditAnnotationLength = 5 * 1024
)

func checkAnnotations(x *expressionValidator, p *admissionv1.ValidatingAdmissionPolicy, path *field.Path) {
	list := p.Spec.AuditAnnotations
	if len(list) > maxAuditAnnotations {
		x.Add(field.TooMany(path, len(list), maxAuditAnnotations))
		return
	}
	seen := sets.New[string]()
	for i, a := range list {
		at := path.Index(i)
		key := p.Name + "/" + a.Key
		if p.Name == "" {
			x.Invalid(at.Child("key"), a.Key, "requires metadata.name be non-empty")
		} else {
			x.InvalidEach(at.Child("key"), key, validation.IsQualifiedName(key))
		}
		if seen.Has(a.Key) {
			x.Add(field.Duplicate(at.Child("key"), a.Key))
		}
		seen.Insert(a.Key)
		switch text := strings.TrimSpace(a.ValueExpression); {
		case text == "":
			x.Required(at.Child("valueExpression"), "valueExpression is not specified")
		case len(text) > maxAuditAnnotationLength:
			x.Required(at.Child("valueExpression"), "must not exceed 5kb in length")
		default:
			x.compile(&validating.AuditAnnotationCondition{Key: a.Key, ValueExpression: a.ValueExpression},
				at.Child("valueExpression"))
		}
	}
}

func checkMutations(x *expressionValidator, p *admissionv1.MutatingAdmissionPolicy) {
	if m := p.Spec.MatchConstraints; m != nil {
		checkMutatedOperations(x.Errors, m.ResourceRules, spec().Child("matchConstraints", "resourceRules",
			"operations"))
	}
	path := spec().Child("mutations")
	if len(p.Spec.Mutations) == 0 {
		x.Required(path, "mutations must contain at least one item")
	}
	for i := range p.Spec.Mutations {
		checkMutation(x, &p.Spec.Mutations[i], path.Index(i))
	}
	if again := spec().Child("reinvocationPolicy"); p.Spec.ReinvocationPolicy == "" {
		x.Required(again, "")
	} else {
		typed.Supported(x.Errors, again, p.Spec.ReinvocationPolicy, admissionv1.IfNeededReinvocationPolicy,
			admissionv1.NeverReinvocationPolicy)
	}
}

// checkMutatedOperations refuses operations that leave nothing to change.
func checkMutatedOperations(f *typed.Errors, rules []admissionv1.NamedRuleWithOperations, at *field.Path) {
	known := []admissionv1.OperationType{admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create,
		admissionv1.Update}
	bad := sets.New[admissionv1.OperationType]()
	for i := range rules {
		bad.Insert(rules[i].Operations...)
	}
	for _, o := range sets.List(bad.Delete(known...)) {
		f.Add(field.NotSupported(at, o, known))
	}
}

func checkMutation(x *expressionValidator, m *admissionv1.Mutation, at *field.Path) {
	apply, list := at.Child("applyConfiguration"), at.Child("jsonPatch")
	switch m.PatchType {
	case "":
		x.Required(at.Child("patchType"), "")
	case admissionv1.PatchTypeApplyConfiguration:
		switch c := m.ApplyConfiguration; {
		case c == nil:
			x.Required(apply, "must be specified when patchType is ApplyConfiguration")
		case strings.TrimSpace(c.Expression) == "":
			x.Required(apply.Child("expression"), "")
		default:
			x.compile(&patch.ApplyConfigurationCondition{Expression: c.Expression}, apply.Child("expression"))
		}
		if m.JSONPatch != nil {
			x.Invalid(list, "{jsonPatch}", "must not be specified when patchType is ApplyConfiguration")
		}
	case admissionv1.PatchTypeJSONPatch:
		switch c := m.JSONPatch; {
		case c == nil:
			x.Required(list, "must be specified when patchType is JSONPatch")
		case strings.TrimSpace(c.Expression) == "":
			x.Required(list.Child("expression"), "")
		default:
			x.compile(&patch.JSONPatchCondition{Expression: c.Expression}, list.Child("expression"))
		}
		if m.ApplyConfiguration != nil {
			x.Invalid(apply, "{applyConfiguration}", "must not be specified when patchType is JSONPatch")
		}
	default:
		x.Add(field.NotSupported(at.Child("patchType"), m.PatchType,
			[]admissionv1.PatchType{admissionv1.PatchTypeApplyConfiguration, admissionv1.PatchTypeJSONPatch}))
	}
}
