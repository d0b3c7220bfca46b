package registry

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
)

// ValidateDeclaratively implements rest.DeclarativeValidationStrategy. It is called after Validate
// and the library's check of the name, with the errors found. The order is upstream's: the errors
// of handwritten validation first, then those of declarative validation. Those are errors that the
// kind's own ValidateDeclaratively returns, and found ones that splitDeclarative tells. A found
// error that the kind's ValidateDeclaratively repeats is dropped, as is one with the text of
// another.
func (s *strategy) ValidateDeclaratively(ctx context.Context, obj, old runtime.Object, found field.ErrorList,
	t operation.Type, _ rest.DeclarativeValidationConfig) field.ErrorList {
	var declared field.ErrorList
	if v := s.kind.Rules.ValidateDeclaratively; v != nil {
		declared = slices.DeleteFunc(v(ctx, operation.Operation{Type: t}, obj, old), (*field.Error).IsAlpha)
	}
	found = slices.DeleteFunc(slices.Clone(found), func(e *field.Error) bool {
		return slices.ContainsFunc(declared, func(d *field.Error) bool { return covers(d, e) })
	})
	handwritten, checked := splitDeclarative(schema.GroupResource{Group: s.kind.Group, Resource: s.kind.Resource}, t,
		found)
	reported := map[string]bool{}
	return slices.DeleteFunc(slices.Concat(handwritten, checked, declared), func(e *field.Error) bool {
		text := e.Error()
		again := reported[text]
		reported[text] = true
		return again
	})
}

// covers reports whether a declared error says what a handwritten one says: about the same field,
// of the same type, and of the same rule if the type leaves that open.
func covers(declared, handwritten *field.Error) bool {
	if declared.Field != handwritten.Field || declared.Type != handwritten.Type {
		return false
	}
	return declared.Type != field.ErrorTypeInvalid || declared.Detail == handwritten.Detail ||
		declared.Origin != "" && declared.Origin == handwritten.Origin
}
