package resource

import (
	"encoding/json"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func checkSelectors(f *typed.Errors, list []resourcev1.DeviceSelector, p *field.Path, stored bool) {
	checkEach(f, newListChecker(p, list, resourcev1.DeviceSelectorsMaxSize),
		func(s *resourcev1.DeviceSelector, at *field.Path) {
			if s.CEL == nil {
				f.Required(at.Child("cel"), "")
				return
			}
			checkExpression(f, s.CEL.Expression, at.Child("cel", "expression"), stored)
		})
}

// checkExpression compiles a selector by the functions known for new expressions, or all for those
// stored already.
func checkExpression(f *typed.Errors, text string, p *field.Path, stored bool) {
	if len(text) > resourcev1.CELSelectorExpressionMaxLength {
		f.Add(field.TooLong(p, "", resourcev1.CELSelectorExpressionMaxLength))
		return
	}
	env := environment.NewExpressions
	if stored {
		env = environment.StoredExpressions
	}
	compiled := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true}).CompileCELExpression(text,
		cel.Options{EnvType: &env})
	switch err := compiled.Error; {
	case err == nil && compiled.MaxCost > resourcev1.CELSelectorExpressionMaxCost:
		f.Forbidden(p, "too complex, exceeds cost limit")
	case err == nil:
	case err.Type == apiservercel.ErrorTypeRequired:
		f.Required(p, err.Detail)
	case err.Type == apiservercel.ErrorTypeInvalid:
		f.Invalid(p, text, err.Detail)
	default:
		f.Add(field.InternalError(p, err))
	}
}

func checkConfiguration(f *typed.Errors, c *resourcev1.DeviceConfiguration, p *field.Path, stored bool) {
	if c.Opaque == nil {
		f.Required(p.Child("opaque"), "")
		return
	}
	checkDeclaredDriver(f, c.Opaque.Driver, p.Child("opaque", "driver"))
	checkRaw(f, c.Opaque.Parameters, p.Child("opaque", "parameters"),
		rawExtensionLimits{resourcev1.OpaqueParametersMaxLength, stored})
}

// rawExtensionLimits is the most bytes a driver's own object may have, unless it is stored already.
type rawExtensionLimits struct {
	maxBytes int
	stored   bool
}

// checkRaw wants a JSON object.
func checkRaw(f *typed.Errors, raw runtime.RawExtension, p *field.Path, rule rawExtensionLimits) {
	if len(raw.Raw) == 0 {
		f.Required(p, "")
		return
	}
	if !rule.stored && len(raw.Raw) > rule.maxBytes {
		f.Add(field.TooLong(p, "", rule.maxBytes)) // no use in parsing what is too long
		return
	}
	var v any
	if err := json.Unmarshal(raw.Raw, &v); err != nil {
		f.Invalid(p, "<value omitted>", fmt.Sprintf("error parsing data as JSON: %v", err))
	} else if v == nil {
		f.Required(p, "")
	} else if _, ok := v.(map[string]any); !ok {
		f.Invalid(p, "<value omitted>", "must be a valid JSON object")
	}
}
