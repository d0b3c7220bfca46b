package typed

import (
	"context"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// Object constrains PT to *T where *T is an API object or list.
type Object[T any] interface {
	*T
	runtime.Object
}

// NewTypes returns the constructors of a cluster-scoped kind T and its list L.
func NewTypes[T, L any, PT Object[T], PL Object[L]]() resourcedef.Types {
	return resourcedef.Types{
		New:     func() runtime.Object { return PT(new(T)) },
		NewList: func() runtime.Object { return PL(new(L)) },
	}
}

// NewNamespacedTypes is NewTypes for a namespaced kind.
func NewNamespacedTypes[T, L any, PT Object[T], PL Object[L]]() resourcedef.Types {
	t := NewTypes[T, L, PT, PL]()
	t.Namespaced = true
	return t
}

// RowFunc adapts a function that makes the table cells of a T to resourcedef.Table.Row.
func RowFunc[T any](f func(*T, resourcedef.RowOptions) []any) func(runtime.Object, resourcedef.RowOptions) []any {
	return func(o runtime.Object, opt resourcedef.RowOptions) []any { return f(cast[T](o), opt) }
}

// Rules are resourcedef.Rules over a kind's own Go type; Untyped converts them. Any field may be
// nil: the generic strategy then does what resourcedef.Rules says for that field. The functions are
// pure and may be called from many requests at once; those that prepare or default change o and
// must not change old.
type Rules[T any] struct {
	ValidateName     func(name string, prefix bool) []string
	Default          func(o *T)
	PrepareForCreate func(ctx context.Context, o *T)
	PrepareForUpdate func(o, old *T)
	// Validate checks a create (old is nil) and an update.
	Validate func(o, old *T) field.ErrorList
	// PrepareForStatusUpdate copies from old those parts of the status that the status endpoint may
	// not change; the generic strategy has copied everything outside of the status.
	PrepareForStatusUpdate func(o, old *T)
	ValidateStatus         func(o, old *T) field.ErrorList
	// ValidateDeclaratively is resourcedef.Rules.ValidateDeclaratively; old is nil for a create.
	ValidateDeclaratively func(ctx context.Context, op operation.Operation, o, old *T) field.ErrorList
	Warn                  func(o *T) []string
	// WarnUpdate is resourcedef.Rules.WarnUpdate; nil: Warn is asked of the new object.
	WarnUpdate       func(o, old *T) []string
	SelectableFields func(o *T) fields.Set
	// AllowUnconditionalUpdate accepts PUT without a resourceVersion; AllowCreateOnUpdate lets PUT
	// create the object.
	AllowUnconditionalUpdate, AllowCreateOnUpdate bool
}

// Untyped converts the rules to those of the generic strategy. A nil rule stays nil.
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
		ValidateDeclaratively: ifSet(r.ValidateDeclaratively,
			func(ctx context.Context, op operation.Operation, o, old runtime.Object) field.ErrorList {
				before, _ := any(old).(*T)
				return r.ValidateDeclaratively(ctx, op, cast[T](o), before)
			}),
		Warn: ifSet(r.Warn, func(_ context.Context, o runtime.Object) []string {
			return r.Warn(cast[T](o))
		}),
		WarnUpdate: ifSet(r.WarnUpdate, func(_ context.Context, o, old runtime.Object) []string {
			return r.WarnUpdate(cast[T](o), cast[T](old))
		}),
		Fields: ifSet(r.SelectableFields, func(o runtime.Object) fields.Set {
			return r.SelectableFields(cast[T](o))
		}),
		AllowUnconditionalUpdate: r.AllowUnconditionalUpdate,
		AllowCreateOnUpdate:      r.AllowCreateOnUpdate,
	}
}

// cast panics for another type: the generic strategy only calls a rule with its own kind.
func cast[T any](o runtime.Object) *T { return any(o).(*T) }

func untypedFunc[T any](f func(*T)) func(runtime.Object) {
	return ifSet(f, func(o runtime.Object) { f(cast[T](o)) })
}

func untypedUpdateFunc[T any](f func(o, old *T)) func(context.Context, runtime.Object, runtime.Object) {
	return ifSet(f, func(_ context.Context, o, old runtime.Object) { f(cast[T](o), cast[T](old)) })
}

// ifSet returns to, or nil if rule is nil.
func ifSet[F, G any](rule F, to G) G {
	if isNil(rule) {
		var none G
		return none
	}
	return to
}
