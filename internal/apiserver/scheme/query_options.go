package scheme

import (
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// addQueries lets the options of connecting subresources be read from a query string.
func addQueries(s *runtime.Scheme) error {
	for _, o := range []any{
		(*corev1.PodLogOptions)(nil), (*corev1.PodExecOptions)(nil), (*corev1.PodAttachOptions)(nil),
		(*corev1.PodPortForwardOptions)(nil),
		(*corev1.PodProxyOptions)(nil), (*corev1.NodeProxyOptions)(nil), (*corev1.ServiceProxyOptions)(nil),
	} {
		err := s.AddConversionFunc((*url.Values)(nil), o, func(a, b any, _ conversion.Scope) error {
			return fromQuery(*a.(*url.Values), reflect.ValueOf(b).Elem())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fromQuery fills the fields of an options struct from the values under their JSON names.
func fromQuery(q url.Values, v reflect.Value) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		values, ok := q[name]
		if name == "" || f.Anonymous || !ok || len(values) == 0 {
			continue
		}
		if err := setField(v.Field(i), values); err != nil {
			return err // says no name, as upstream's
		}
	}
	return nil
}

// setField writes the texts of one parameter into a field.
func setField(v reflect.Value, texts []string) error {
	switch dst := v.Addr().Interface().(type) {
	case *[]string:
		*dst = append([]string(nil), texts...)
		return nil
	case *[]int32:
		return metav1.Convert_Slice_string_To_Slice_int32(&texts, dst, nil) // also "80,81"
	case **metav1.Time:
		if texts[0] == "" {
			return nil
		}
		t, err := time.Parse(time.RFC3339, texts[0])
		if err != nil {
			return err
		}
		*dst = &metav1.Time{Time: t}
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		v.Set(p)
		return setField(p.Elem(), texts)
	case reflect.Slice:
		out := reflect.MakeSlice(v.Type(), len(texts), len(texts))
		for i := range texts {
			if err := setField(out.Index(i), texts[i:i+1]); err != nil {
				return err
			}
		}
		v.Set(out)
	case reflect.String:
		v.SetString(texts[0])
	case reflect.Bool:
		// As apimachinery reads booleans: only "false" and "0" say no.
		v.SetBool(!strings.EqualFold(texts[0], "false") && texts[0] != "0")
	case reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(texts[0], 10, v.Type().Bits())
		if err != nil {
			return err
		}
		v.SetInt(n)
	default:
		return fmt.Errorf("cannot be read from a query: %s", v.Type())
	}
	return nil
}
