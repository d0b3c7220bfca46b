package row

import (
	"context"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// Object is what both Go types of an object are.
type Object[T any] interface {
	*T
	runtime.Object
}

// Types are the constructors of a kind and its list.
func Types[T, L any, PT Object[T], PL Object[L]]() kind.Types {
	return kind.Types{
		New:     func() runtime.Object { return PT(new(T)) },
		NewList: func() runtime.Object { return PL(new(L)) },
	}
}

// InNamespace are Types of a namespaced kind.
func InNamespace[T, L any, PT Object[T], PL Object[L]]() kind.Types {
	t := Types[T, L, PT, PL]()
	t.Namespaced = true
	return t
}

// Cells adapts a typed row function.
func Cells[T any](f func(*T, kind.RowOptions) []any) func(runtime.Object, kind.RowOptions) []any {
	return func(o runtime.Object, opt kind.RowOptions) []any { return f(of[T](o), opt) }
}

// Rules are a kind's decisions about writes over its own Go type; any may be nil. They become kind.Rules with Rules.
type Rules[T any] struct {
	Name    func(name string, prefix bool) []string
	Default func(o *T)
	Create  func(ctx context.Context, o *T)
	Update  func(o, old *T)
	// Check judges what is written; old is nil at creation.
	Check func(o, old *T) field.ErrorList
	// Status keeps of old what the status endpoint may not change beyond the rest of the object.
	Status      func(o, old *T)
	CheckStatus func(o, old *T) field.ErrorList
	Warn        func(o *T) []string
	Fields      func(o *T) fields.Set
	// Unconditional lets PUT without a resourceVersion through; CreateOnUpdate lets it make the object.
	Unconditional, CreateOnUpdate bool
}

// Rules are the untyped rules.
func (r Rules[T]) Rules() kind.Rules {
	return kind.Rules{
		ValidateName: r.Name,
		Default:      one(r.Default),
		PrepareCreate: when(r.Create, func(ctx context.Context, o runtime.Object) {
			r.Create(ctx, of[T](o))
		}),
		PrepareUpdate: pair(r.Update),
		PrepareStatus: pair(r.Status),
		Validate: when(r.Check, func(_ context.Context, o runtime.Object) field.ErrorList {
			return r.Check(of[T](o), nil)
		}),
		ValidateUpdate: when(r.Check, func(_ context.Context, o, old runtime.Object) field.ErrorList {
			return r.Check(of[T](o), of[T](old))
		}),
		ValidateStatus: when(r.CheckStatus, func(_ context.Context, o, old runtime.Object) field.ErrorList {
			return r.CheckStatus(of[T](o), of[T](old))
		}),
		Warn: when(r.Warn, func(_ context.Context, o runtime.Object) []string {
			return r.Warn(of[T](o))
		}),
		Fields: when(r.Fields, func(o runtime.Object) fields.Set {
			return r.Fields(of[T](o))
		}),
		AllowUnconditionalUpdate: r.Unconditional,
		AllowCreateOnUpdate:      r.CreateOnUpdate,
	}
}

// of is the object a rule was written for; a row is only ever given its own kind.
func of[T any](o runtime.Object) *T { return any(o).(*T) }

func one[T any](f func(*T)) func(runtime.Object) {
	return when(f, func(o runtime.Object) { f(of[T](o)) })
}

func pair[T any](f func(o, old *T)) func(context.Context, runtime.Object, runtime.Object) {
	return when(f, func(_ context.Context, o, old runtime.Object) { f(of[T](o), of[T](old)) })
}

// when is to, unless there is no rule.
func when[F, G any](rule F, to G) G {
	if isNil(rule) {
		var none G
		return none
	}
	return to
}
