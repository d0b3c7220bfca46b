package podspec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// errorCollector gathers what is wrong, in the order it is found.
type errorCollector field.ErrorList

func (f *errorCollector) add(errs ...*field.Error) { *f = append(*f, errs...) }

func (f *errorCollector) invalid(p *field.Path, value any, detail string) {
	f.add(field.Invalid(p, value, detail))
}
func (f *errorCollector) required(p *field.Path, detail string)  { f.add(field.Required(p, detail)) }
func (f *errorCollector) forbidden(p *field.Path, detail string) { f.add(field.Forbidden(p, detail)) }

// invalidEach adds one finding per message about value.
func (f *errorCollector) invalidEach(p *field.Path, value any, messages []string) {
	for _, m := range messages {
		f.invalid(p, value, m)
	}
}

func (f *errorCollector) list() field.ErrorList { return field.ErrorList(*f) }

// label wants a DNS label, subdomain a DNS subdomain.
func (f *errorCollector) label(p *field.Path, s string) {
	f.invalidEach(p, s, validation.IsDNS1123Label(s))
}
func (f *errorCollector) subdomain(p *field.Path, s string) {
	f.invalidEach(p, s, validation.IsDNS1123Subdomain(s))
}

// supported wants one of the known values; needed also refuses the empty one in its own words.
func supported[T ~string](f *errorCollector, p *field.Path, v T, known ...T) {
	for _, k := range known {
		if v == k {
			return
		}
	}
	f.add(field.NotSupported(p, v, known))
}

func requiredOneOf[T ~string](f *errorCollector, p *field.Path, v T, known ...T) {
	if v == "" {
		f.required(p, "")
		return
	}
	supported(f, p, v, known...)
}

// atLeast wants a number of n or more.
func atLeast[T int32 | int64](f *errorCollector, p *field.Path, v, n T) {
	if v < n {
		f.invalid(p, v, fmt.Sprintf("must be greater than or equal to %d", n))
	}
}

// goFields prints a struct in messages by its Go field names, all of them, as upstream prints the
// values it refuses.
type goFields struct{ v any }

// MarshalJSON writes structs with Go field names and leaves what marshals itself alone.
func (b goFields) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	err := writeGoFields(&out, reflect.ValueOf(b.v))
	return out.Bytes(), err
}

func writeGoFields(out *bytes.Buffer, v reflect.Value) error {
	switch {
	case !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil():
		out.WriteString("null")
		return nil
	case v.Kind() == reflect.Pointer:
		return writeGoFields(out, v.Elem())
	case v.Kind() != reflect.Struct || v.Type().Implements(reflect.TypeFor[json.Marshaler]()) ||
		reflect.PointerTo(v.Type()).Implements(reflect.TypeFor[json.Marshaler]()):
		raw, err := json.Marshal(v.Interface())
		out.Write(raw)
		return err
	}
	parts := make([]string, 0, v.NumField())
	for i := range v.NumField() {
		var one bytes.Buffer
		if err := writeGoFields(&one, v.Field(i)); err != nil {
			return err
		}
		parts = append(parts, fmt.Sprintf("%q:%s", v.Type().Field(i).Name, one.String()))
	}
	out.WriteString("{" + strings.Join(parts, ",") + "}")
	return nil
}

// GoFields wraps a value for messages: structs print by their Go field names, all of them, as
// upstream prints what it refuses.
func GoFields(v any) any { return goFields{v} }
