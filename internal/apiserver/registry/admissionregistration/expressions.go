package admissionregistration

import (
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// celCompilers make the compilers of expressions when they are first needed: their environments
// take a while to build.
type celCompilers struct{ simple func() plugincel.Compiler }

func newCompilers() celCompilers {
	return celCompilers{
		simple: sync.OnceValue(func() plugincel.Compiler { return plugincel.NewCompiler(baseEnvironment()) })}
}

func baseEnvironment() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
}

// expressionValidator validates those of one object.
type expressionValidator struct {
	*typed.Errors
	compiler plugincel.Compiler
	declared plugincel.OptionalVariableDeclarations
	stored   sets.Set[string] // expressions of the stored object: they may use what newer ones may not
}

func (x *expressionValidator) mode(text string) environment.Type {
	if x.stored.Has(text) {
		return environment.StoredExpressions
	}
	return environment.NewExpressions
}

// compile wants an expression that compiles to what its place asks for.
func (x *expressionValidator) compile(e plugincel.ExpressionAccessor, at *field.Path) {
	x.addError(e, x.compiler.CompileCELExpression(e, x.declared, x.mode(e.GetExpression())).Error, at)
}

func (x *expressionValidator) addError(e plugincel.ExpressionAccessor, err *apiservercel.Error, at *field.Path) {
	switch {
	case err == nil:
	case err.Type == apiservercel.ErrorTypeRequired:
		x.Required(at, err.Detail)
	case err.Type == apiservercel.ErrorTypeInvalid:
		x.Invalid(at, e.GetExpression(), err.Detail)
	default:
		x.Add(field.InternalError(at, err))
	}
}

// maxMatchConditions is how many match conditions a webhook or a policy may have.
const maxMatchConditions = 64

func (x *expressionValidator) conditions(list []admissionv1.MatchCondition, path *field.Path) {
	if len(list) > maxMatchConditions {
		x.Add(field.TooMany(path, len(list), maxMatchConditions))
	}
	seen := sets.New[string]()
	for i := range list {
		c, at := list[i], path.Index(i)
		if strings.TrimSpace(c.Expression) == "" {
			x.Required(at.Child("expression"), "")
		} else {
			x.compile((*matchconditions.MatchCondition)(&c), at.Child("expression"))
		}
		if c.Name == "" {
			x.Required(at.Child("name"), "")
			continue
		}
		x.QualifiedName(at.Child("name"), c.Name)
		if seen.Has(c.Name) {
			x.Add(field.Duplicate(at.Child("name"), c.Name))
		}
		seen.Insert(c.Name)
	}
}

// variables declares a policy's variables, each able to use the ones before it. From here on the
// compiler knows them.
func (x *expressionValidator) variables(list []admissionv1.Variable, path *field.Path) {
	if len(list) == 0 {
		return
	}
	composed, err := plugincel.NewCompositedCompiler(baseEnvironment())
	if err != nil {
		x.Add(field.InternalError(path, err))
		return
	}
	x.compiler = composed
	for i, v := range list {
		at := path.Index(i)
		if v.Name == "" {
			x.Required(at.Child("name"), "name is not specified")
		} else if !identifier(v.Name) {
			x.Invalid(at.Child("name"), v.Name, "must be a valid CEL identifier")
		}
		if strings.TrimSpace(v.Expression) == "" {
			x.Required(at.Child("expression"), "expression is not specified")
			continue
		}
		e := &validating.Variable{Name: v.Name, Expression: v.Expression}
		x.addError(e, composed.CompileAndStoreVariable(e, x.declared, x.mode(v.Expression)).Error,
			at.Child("expression"))
	}
}

// reserved are the words CEL keeps for itself.
func reserved() sets.Set[string] {
	return sets.New("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if",
		"import", "let", "loop", "package", "namespace", "return", "var", "void", "while")
}

func identifier(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return !reserved().Has(s)
}
