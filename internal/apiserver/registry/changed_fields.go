package registry

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// maxFieldDepth is how deep the paths of changed fields go into a Pod:
// status.containerStatuses[web].state.
const maxFieldDepth = 3

// changedFields returns the paths of the fields in which two states of a Pod differ, such as
// status.containerStatuses[web].state; at most journal.MaxChanged, in the order of the Go fields.
// resourceVersion, managedFields and generation are left out.
func changedFields(previous, now *corev1.Pod) []string {
	var out []string
	walkValue(&out, "metadata", reflect.ValueOf(previous.ObjectMeta), reflect.ValueOf(now.ObjectMeta))
	walkValue(&out, "spec", reflect.ValueOf(previous.Spec), reflect.ValueOf(now.Spec))
	walkValue(&out, "status", reflect.ValueOf(previous.Status), reflect.ValueOf(now.Status))
	return out[:min(len(out), journal.MaxChanged)]
}

var timeType, microTimeType = reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]()

// walkValue appends the paths below path in which two values of one type differ.
func walkValue(out *[]string, path string, previous, now reflect.Value) {
	if len(*out) >= journal.MaxChanged || apiequality.Semantic.DeepEqual(previous.Interface(), now.Interface()) {
		return
	}
	switch {
	case strings.Count(path, ".") >= maxFieldDepth, previous.Type() == timeType, previous.Type() == microTimeType:
		// times are compared as a whole: their fields are unexported
	case previous.Kind() == reflect.Struct && previous.NumField() > 0 && previous.Type().Field(0).IsExported():
		walkStruct(out, path, previous, now)
		return
	case previous.Kind() == reflect.Slice && previous.Type().Elem().Kind() == reflect.Struct:
		walkList(out, path, previous, now)
		return
	case previous.Kind() == reflect.Map && previous.Type().Key().Kind() == reflect.String:
		walkMap(out, path, previous, now)
		return
	}
	*out = append(*out, path)
}

// walkStruct compares structs field by field; inline fields keep the path.
func walkStruct(out *[]string, path string, previous, now reflect.Value) {
	for i := range previous.NumField() {
		name, _, _ := strings.Cut(previous.Type().Field(i).Tag.Get("json"), ",")
		switch name {
		case "resourceVersion", "managedFields", "generation":
			continue
		case "":
			walkValue(out, path, previous.Field(i), now.Field(i))
			continue
		}
		walkValue(out, path+"."+name, previous.Field(i), now.Field(i))
	}
}

// walkList compares the elements of two lists that have the same Name or Type; lists of elements
// without such a field differ as a whole.
func walkList(out *[]string, path string, previous, now reflect.Value) {
	field := ""
	for _, f := range []string{"Name", "Type"} {
		if sf, ok := previous.Type().Elem().FieldByName(f); ok && sf.Type.Kind() == reflect.String {
			field = f
			break
		}
	}
	if field == "" {
		*out = append(*out, path)
		return
	}
	before := map[string]reflect.Value{}
	for i := range previous.Len() {
		before[previous.Index(i).FieldByName(field).String()] = previous.Index(i)
	}
	for i := range now.Len() {
		name := now.Index(i).FieldByName(field).String()
		at := fmt.Sprintf("%s[%s]", path, name)
		if b, ok := before[name]; ok {
			walkValue(out, at, b, now.Index(i))
			delete(before, name)
			continue
		}
		*out = append(*out, at)
	}
	for i := range previous.Len() {
		if name := previous.Index(i).FieldByName(field).String(); before[name].IsValid() {
			*out = append(*out, fmt.Sprintf("%s[%s]", path, name))
		}
	}
}

// walkMap appends the keys, sorted, whose values differ.
func walkMap(out *[]string, path string, previous, now reflect.Value) {
	keys := map[string]bool{}
	for _, m := range []reflect.Value{previous, now} {
		for _, k := range m.MapKeys() {
			keys[k.String()] = true
		}
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		key := reflect.ValueOf(k).Convert(previous.Type().Key())
		b, n := previous.MapIndex(key), now.MapIndex(key)
		if !b.IsValid() || !n.IsValid() || !apiequality.Semantic.DeepEqual(b.Interface(), n.Interface()) {
			*out = append(*out, fmt.Sprintf("%s[%s]", path, k))
		}
	}
}
