package typed

import (
	"context"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// Object is what both Go types of an object are.
type Object[T any] interface {
	*T
	runtime.Object
}

// NewTypes are the constructors of a kind and its list.
func NewTypes[T, L any, PT Object[T], PL Object[L]]() resourcedef.Types {
	return resourcedef.Types{
		New:     func() runtime.Object { return PT(new(T)) },
		NewList: func() runtime.Object { return PL(new(L)) },
	}
}

// NewNamespacedTypes are NewTypes of a namespaced kind.
func NewNamespacedTypes[T, L any, PT Object[T], PL Object[L]]() resourcedef.Types {
	t := NewTypes[T, L, PT, PL]()
	t.Namespaced = true
	return t
}

// RowFunc adapts a typed row function.
func RowFunc[T any](f func(*T, resourcedef.RowOptions) []any) func(runtime.Object, resourcedef.RowOptions) []any {
	return func(o runtime.Object, opt resourcedef.RowOptions) []any { return f(cast[T](o), opt) }
}

// Rules are a kind's decisions about writes over its own Go type; any may be nil. They become
// resourcedef.Rules with Rules.
type Rules[T any] struct {
	ValidateName     func(name string, prefix bool) []string
	Default          func(o *T)
	PrepareForCreate func(ctx context.Context, o *T)
	PrepareForUpdate func(o, old *T)
	// Validate judges what is written; old is nil at creation.
	Validate func(o, old *T) field.ErrorList
	// PrepareForStatusUpdate keeps of old what the status endpoint may not change beyond the rest
	// of the object.
	PrepareForStatusUpdate func(o, old *T)
	ValidateStatus         func(o, old *T) field.ErrorList
	Warn                   func(o *T) []string
	SelectableFields       func(o *T) fields.Set
	// Unconditional lets PUT without a resourceVersion through; AllowCreateOnUpdate lets it make
	// the object.
	AllowUnconditionalUpdate, AllowCreateOnUpdate bool
}

// Untyped are the untyped rules.
func (r Rules[T]) Untyped() resourcedef.Rules {
	return resourcedef.Rules{
		ValidateName: r.ValidateName,
		Default:      untypedFunc(r.Default),
		PrepareCreate: ifSet(r.PrepareForCreate, func(ctx context.Context, o runtime.Object) {
			r.PrepareForCreate(ctx, cast[T](o))
		}),
		PrepareUpdate: untypedUpdateFunc(r.PrepareForUpdate),
		PrepareStatus: untypedUpdateFunc(r.PrepareForStatusUpdate),
		Validate: ifSet(r.Validate, func(_ context.Context, o runtime.Object) field.ErrorList {
			return r.Validate(cast[T](o), nil)
		}),
		ValidateUpdate: ifSet(r.Validate, func(_ context.Context, o, old runtime.Object) field.ErrorList {
			return r.Validate(cast[T](o), cast[T](old))
		}),
		ValidateStatus: ifSet(r.ValidateStatus, func(_ context.Context, o, old runtime.Object) field.ErrorList {
			return r.ValidateStatus(cast[T](o), cast[T](old))
		}),
		Warn: ifSet(r.Warn, func(_ context.Context, o runtime.Object) []string {
			return r.Warn(cast[T](o))
		}),
		Fields: ifSet(r.SelectableFields, func(o runtime.Object) fields.Set {
			return r.SelectableFields(cast[T](o))
		}),
		AllowUnconditionalUpdate: r.AllowUnconditionalUpdate,
		AllowCreateOnUpdate:      r.AllowCreateOnUpdate,
	}
}

// cast is the object a rule was written for; a row is only ever given its own kind.
func cast[T any](o runtime.Object) *T { return any(o).(*T) }

func untypedFunc[T any](f func(*T)) func(runtime.Object) {
	return ifSet(f, func(o runtime.Object) { f(cast[T](o)) })
}

func untypedUpdateFunc[T any](f func(o, old *T)) func(context.Context, runtime.Object, runtime.Object) {
	return ifSet(f, func(_ context.Context, o, old runtime.Object) { f(cast[T](o), cast[T](old)) })
}

// ifSet is to, unless there is no rule.
func ifSet[F, G any](rule F, to G) G {
	if isNil(rule) {
		var none G
		return none
	}
	return to
}
