package registry

import (
	"cmp"
	"context"
	"slices"
	"strconv"

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
		sortMapKeys(declared)
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

// sortMapKeys orders neighbouring errors about values of one map by their keys: the generated
// validation goes through maps in Go's random order, and equal requests get equal answers.
func sortMapKeys(errs field.ErrorList) {
	for from := 0; from < len(errs); {
		parent, _, ok := mapKey(errs[from].Field)
		to := from + 1
		for ; ok && to < len(errs); to++ {
			if other, _, more := mapKey(errs[to].Field); !more || other != parent {
				break
			}
		}
		slices.SortStableFunc(errs[from:to], func(a, b *field.Error) int {
			_, x, _ := mapKey(a.Field)
			_, y, _ := mapKey(b.Field)
			return cmp.Compare(x, y)
		})
		from = to
	}
}

// mapKey splits a path at its first key that is no index of a list:
// spec.devices[0].attributes[a].int into spec.devices[0].attributes and a.
func mapKey(path string) (parent, key string, ok bool) {
	for _, at := range indexOrKey.FindAllStringIndex(path, -1) {
		key := path[at[0]+1 : at[1]-1]
		if _, err := strconv.Atoi(key); err != nil {
			return path[:at[0]], key, true
		}
	}
	return "", "", false
}
