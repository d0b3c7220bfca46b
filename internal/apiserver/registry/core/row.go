package core

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// object is what both Go types of an object are.
type object[T any] interface {
	*T
	runtime.Object
}

// types are the constructors of a namespaced kind and its list.
func types[T, L any, PT object[T], PL object[L]]() kind.Types {
	return kind.Types{
		New:        func() runtime.Object { return PT(new(T)) },
		NewList:    func() runtime.Object { return PL(new(L)) },
		Namespaced: true,
	}
}

// row adapts a typed row function.
func row[T any, PT object[T]](f func(PT, kind.RowOptions) []any) func(runtime.Object, kind.RowOptions) []any {
	return func(o runtime.Object, opt kind.RowOptions) []any { return f(o.(PT), opt) }
}

func isTrue(b *bool) bool { return b != nil && *b }

// sortedKeys are a map's keys in order, so that errors come in one order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
