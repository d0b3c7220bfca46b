package typed

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GoFields wraps a value for messages: structs print by their Go field names, all of them and at
// every depth, as upstream prints what it refuses.
func GoFields(v any) any { return goFields{v} }

type goFields struct{ v any }

// MarshalJSON writes structs with Go field names and leaves what marshals itself alone.
func (b goFields) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	err := writeGoFields(&out, reflect.ValueOf(b.v))
	return out.Bytes(), err
}

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

func writeJSON(out *bytes.Buffer, v reflect.Value) error {
	raw, err := json.Marshal(v.Interface())
	out.Write(raw)
	return err
}

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
