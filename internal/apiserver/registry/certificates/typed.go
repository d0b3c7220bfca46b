package certificates

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// object is what both Go types of an object are.
type object[T any] interface {
	*T
	runtime.Object
}

// newTypes are the constructors of a kind and its list.
func newTypes[T, L any, PT object[T], PL object[L]]() resourcedef.Types {
	return resourcedef.Types{
		New:     func() runtime.Object { return PT(new(T)) },
		NewList: func() runtime.Object { return PL(new(L)) },
	}
}

// rowFunc adapts a typed row function.
func rowFunc[T any, PT object[T]](
	f func(PT, resourcedef.RowOptions) []any) func(runtime.Object, resourcedef.RowOptions) []any {
	return func(o runtime.Object, opt resourcedef.RowOptions) []any { return f(o.(PT), opt) }
}

// orText fills in a text that is empty.
func orText[T ~string](p *T, v T) {
	if *p == "" {
		*p = v
	}
}
