package typed

import "reflect"

// SetDefault sets *p to v if it is nil.
func SetDefault[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}

// SetDefaultString sets *p to v if it is empty.
func SetDefaultString[T ~string](p *T, v T) {
	if *p == "" {
		*p = v
	}
}

// Deref returns *p, or the zero value for nil.
func Deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

func isNil(f any) bool { return reflect.ValueOf(f).IsNil() }
