package row

import "reflect"

// OrElse fills in a field that is not set.
func OrElse[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}

// OrText fills in a text that is empty.
func OrText[T ~string](p *T, v T) {
	if *p == "" {
		*p = v
	}
}

// Value is what p points to, or the zero value.
func Value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

func isNil(f any) bool { return reflect.ValueOf(f).IsNil() }
