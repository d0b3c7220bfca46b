package typed

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GoFields wraps the value of a field error so that its structs print by their Go field names: all
// fields, set or not, at every depth, in slices too. Upstream validates internal types, which have
// no JSON tags, and field.Error prints values as JSON, so that clients see
// {"Type":"Odd","RollingUpdate":null}.
//
// Types of meta/v1 (which internal types hold as they are) and values that marshal themselves
// (quantities, times, IntOrString) keep their JSON names. Maps do too: none of those that are
// printed hold structs. Upstream flattens embedded structs (a template's ObjectMeta); here they
// print under their type's name.
func GoFields(v any) any { return goFields{v} }

type goFields struct{ v any }

// MarshalJSON implements json.Marshaler, which field.Error.ErrorBody calls.
func (b goFields) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	err := writeGoFields(&out, reflect.ValueOf(b.v))
	return out.Bytes(), err
}

// writeGoFields appends v as JSON to out.
func writeGoFields(out *bytes.Buffer, v reflect.Value) error {
	switch marshaler := reflect.TypeFor[json.Marshaler](); {
	case !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice || v.Kind() == reflect.Map) &&
		v.IsNil():
		out.WriteString("null")
	case v.Kind() == reflect.Pointer:
		return writeGoFields(out, v.Elem())
	case v.Type().PkgPath() == reflect.TypeFor[metav1.ObjectMeta]().PkgPath():
		return writeJSON(out, v) // upstream's internal types hold these as they are
	case v.Type().Implements(marshaler) || reflect.PointerTo(v.Type()).Implements(marshaler):
		return writeJSON(out, v)
	case v.Kind() == reflect.Struct:
		return writeParts(out, "{}", v.NumField(), func(i int) error {
			out.WriteString(strconv.Quote(v.Type().Field(i).Name) + ":")
			return writeGoFields(out, v.Field(i))
		})
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		return writeParts(out, "[]", v.Len(), func(i int) error { return writeGoFields(out, v.Index(i)) })
	default:
		return writeJSON(out, v)
	}
	return nil
}

// writeJSON appends v by its JSON tags.
func writeJSON(out *bytes.Buffer, v reflect.Value) error {
	raw, err := json.Marshal(v.Interface())
	out.Write(raw)
	return err
}

// writeParts appends n elements, each written by one, between the two characters of ends.
func writeParts(out *bytes.Buffer, ends string, n int, one func(int) error) error {
	out.WriteByte(ends[0])
	for i := range n {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := one(i); err != nil {
			return err
		}
	}
	out.WriteByte(ends[1])
	return nil
}
