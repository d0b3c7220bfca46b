package typed

import "reflect"

// SetDefault fills in a field that is not set.
func SetDefault[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}

// SetDefaultString fills in a text that is empty.
func SetDefaultString[T ~string](p *T, v T) {
	if *p == "" {
		*p = v
	}
}

// Deref is what p points to, or the zero value.
func Deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

func isNil(f any) bool { return reflect.ValueOf(f).IsNil() }
