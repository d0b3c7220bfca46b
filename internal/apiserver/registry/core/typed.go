package core

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// object is what both Go types of an object are.
type object[T any] interface {
	*T
	runtime.Object
}

// newTypes are the constructors of a namespaced kind and its list.
func newTypes[T, L any, PT object[T], PL object[L]]() resourcedef.Types {
	return resourcedef.Types{
		New:        func() runtime.Object { return PT(new(T)) },
		NewList:    func() runtime.Object { return PL(new(L)) },
		Namespaced: true,
	}
}

// rowFunc adapts a typed row function.
func rowFunc[T any, PT object[T]](
	f func(PT, resourcedef.RowOptions) []any) func(runtime.Object, resourcedef.RowOptions) []any {
	return func(o runtime.Object, opt resourcedef.RowOptions) []any { return f(o.(PT), opt) }
}

func isTrue(b *bool) bool { return b != nil && *b }

// sortedKeys are a map's keys in order, so that errors come in one order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
