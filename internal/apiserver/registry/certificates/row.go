package certificates

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

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

// orText fills in a text that is empty.
func orText[T ~string](p *T, v T) {
	if *p == "" {
		*p = v
	}
}
