// Package plain holds rows of kinds that need few rules of their own: names, types, columns, what upstream's strategies keep.
//
// Chapter 1, written. One file per API group. In: nothing. Out: rows for apiserver.Kinds.
// A row of the same group, version and resource that stands later in apiserver.Kinds takes the place of the one here.
package plain

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// Kinds are the rows of this package.
func Kinds() []kind.Kind {
	var out []kind.Kind
	for _, group := range [][]kind.Kind{
		RBAC(), Certificates(),
	} {
		out = append(out, group...)
	}
	return out
}

// object is what both Go types of an object are.
type object[T any] interface {
	*T
	runtime.Object
}

// types are the constructors of a kind and its list.
func types[T, L any, PT object[T], PL object[L]]() kind.Types {
	return kind.Types{
		New:     func() runtime.Object { return PT(new(T)) },
		NewList: func() runtime.Object { return PL(new(L)) },
	}
}

// row adapts a typed row function.
func row[T any, PT object[T]](f func(PT, kind.RowOptions) []any) func(runtime.Object, kind.RowOptions) []any {
	return func(o runtime.Object, opt kind.RowOptions) []any { return f(o.(PT), opt) }
}

// orElse fills in a field that is not set.
func orElse[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}

// orText fills in a text that is empty.
func orText[T ~string](p *T, v T) {
	if *p == "" {
		*p = v
	}
}
