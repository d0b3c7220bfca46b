package admissionregistration

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
	"github.com/gantry-project/gantry/test/expect"
)

var errorTexts = expect.ErrorTexts

func match() *admissionv1.MatchResources {
	return &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{
		{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{"CREATE"}, Rule: admissionv1.Rule{APIGroups: []string{""},
				APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		}}}}
}

// TestVariablesAreKnownToWhatComesAfter: each variable may use the ones before it, validations all
// of them.
func TestVariablesAreKnownToWhatComesAfter(t *testing.T) {
	x := newCompilers()
	k := validatingPolicies(x)
	for _, c := range []struct{ name, first, second, use, want string }{
		{"in order", "1", "variables.first + 1", "variables.second > variables.first", ""},
		{"too early", "variables.second", "1", "true", "undefined field 'second'"},
		{"unknown", "1", "2", "variables.third == 1", "undefined field 'third'"},
		{"wrong type", "1", "'x'", "variables.first == variables.second", "no matching overload"},
		{"bad word", "1", "2", "variables.first", "must evaluate to bool but got int"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &admissionv1.ValidatingAdmissionPolicy{Spec: admissionv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: match(), Validations: []admissionv1.Validation{{Expression: c.use}},
				Variables: []admissionv1.Variable{{Name: "first", Expression: c.first},
					{Name: "second", Expression: c.second}},
			}}
			k.Rules.Default(p)
			got := errorTexts(k.Rules.Validate(t.Context(), p))
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestMutations(t *testing.T) {
	x := newCompilers()
	k := mutatingPolicies(x)
	apply := func(e string) admissionv1.Mutation {
		return admissionv1.Mutation{PatchType: admissionv1.PatchTypeApplyConfiguration,
			ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: e}}
	}
	for _, c := range []struct {
		name string
		m    admissionv1.Mutation
		want string
	}{
		{"apply", apply(`Object{metadata: Object.metadata{labels: {"a": "b"}}}`), ""},
		{"patch", admissionv1.Mutation{PatchType: admissionv1.PatchTypeJSONPatch,
			JSONPatch: &admissionv1.JSONPatch{Expression: `[JSONPatch{op: "add", path: "/x", value: 1}]`}}, ""},
		{"apply a number", apply("1"),
			"spec.mutations[0].applyConfiguration.expression: Invalid value: \"1\": must evaluate to Object but got " +
				"int"},
		{"apply nothing", apply(" "),
			"spec.mutations[0].applyConfiguration.expression: Required value"},
		{"unknown", admissionv1.Mutation{PatchType: "X"},
			`spec.mutations[0].patchType: Unsupported value: "X": supported values: "ApplyConfiguration", "JSONPatch"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &admissionv1.MutatingAdmissionPolicy{Spec: admissionv1.MutatingAdmissionPolicySpec{
				MatchConstraints: match(), Mutations: []admissionv1.Mutation{c.m},
				ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			}}
			k.Rules.Default(p)
			if got := errorTexts(k.Rules.Validate(t.Context(), p)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestBindings(t *testing.T) {
	k := validatingBindings()
	b := &admissionv1.ValidatingAdmissionPolicyBinding{Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: "p", ParamRef: &admissionv1.ParamRef{}, MatchResources: &admissionv1.MatchResources{},
		ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny, admissionv1.Warn},
	}}
	k.Rules.Default(b)
	if b.Spec.ParamRef.ParameterNotFoundAction != nil || *b.Spec.MatchResources.MatchPolicy != admissionv1.Equivalent ||
		b.Spec.MatchResources.NamespaceSelector == nil {
		t.Errorf("got %v, want no ParameterNotFoundAction, MatchPolicy Equivalent and set NamespaceSelector", b.Spec)
	}
	want := "spec.paramRef: Required value: one of name or selector must be specified\n" +
		"spec.paramRef.parameterNotFoundAction: Required value\n" +
		`spec.validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn (repeating the ` +
		`same validation failure information in the API response and headers serves no purpose)`
	if got := errorTexts(k.Rules.Validate(t.Context(), b)); got != want {
		t.Errorf("k.Rules.Validate(t.Context(), b) = %v, want %v", got, want)
	}
}

func TestStarsOfSubresources(t *testing.T) {
	for _, c := range []struct {
		list []string
		want string
	}{
		{[]string{"pods", "pods/status"}, ""},
		{[]string{"*", "*/scale"}, ""},
		{[]string{"pods/*", "pods/log"},
			"r[1]: Invalid value: \"pods/log\": if 'pods/*' is present, must not specify pods/log"},
		{[]string{"*/scale", "pods/scale"},
			"r[1]: Invalid value: \"pods/scale\": if '*/scale' is present, must not specify pods/scale"},
		{[]string{"*/*", "pods"},
			"r: Invalid value: [\"*/*\",\"pods\"]: if '*/*' is present, must not specify other resources"},
	} {
		var f typed.Errors
		checkResources(&f, c.list, field.NewPath("r"))
		if got := errorTexts(f.List()); got != c.want {
			t.Errorf("%v: got %s, want %s", c.list, got, c.want)
		}
	}
}
