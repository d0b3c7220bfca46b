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

// depth is how far into a Pod the names of changed fields go: status.containerStatuses[web].state.
const depth = 3

// changed names the fields in which two states of a Pod differ, at most journal.ChangedMost.
func changed(was, now *corev1.Pod) []string {
	var out []string
	walk(&out, "metadata", reflect.ValueOf(was.ObjectMeta), reflect.ValueOf(now.ObjectMeta))
	walk(&out, "spec", reflect.ValueOf(was.Spec), reflect.ValueOf(now.Spec))
	walk(&out, "status", reflect.ValueOf(was.Status), reflect.ValueOf(now.Status))
	return out[:min(len(out), journal.ChangedMost)]
}

var instant, microInstant = reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]()

func walk(out *[]string, path string, was, now reflect.Value) {
	if len(*out) >= journal.ChangedMost || apiequality.Semantic.DeepEqual(was.Interface(), now.Interface()) {
		return
	}
	switch {
	case strings.Count(path, ".") >= depth, was.Type() == instant, was.Type() == microInstant: // a time is one thing, and its inside cannot be compared
	case was.Kind() == reflect.Struct && was.NumField() > 0 && was.Type().Field(0).IsExported():
		walkStruct(out, path, was, now)
		return
	case was.Kind() == reflect.Slice && was.Type().Elem().Kind() == reflect.Struct:
		walkList(out, path, was, now)
		return
	case was.Kind() == reflect.Map && was.Type().Key().Kind() == reflect.String:
		walkMap(out, path, was, now)
		return
	}
	*out = append(*out, path)
}

func walkStruct(out *[]string, path string, was, now reflect.Value) {
	for i := range was.NumField() {
		name, _, _ := strings.Cut(was.Type().Field(i).Tag.Get("json"), ",")
		switch name {
		case "resourceVersion", "managedFields", "generation":
			continue
		case "":
			walk(out, path, was.Field(i), now.Field(i))
			continue
		}
		walk(out, path+"."+name, was.Field(i), now.Field(i))
	}
}

// walkList compares elements of the same Name or Type; lists without such a field differ as a whole.
func walkList(out *[]string, path string, was, now reflect.Value) {
	field := ""
	for _, f := range []string{"Name", "Type"} {
		if sf, ok := was.Type().Elem().FieldByName(f); ok && sf.Type.Kind() == reflect.String {
			field = f
			break
		}
	}
	if field == "" {
		*out = append(*out, path)
		return
	}
	before := map[string]reflect.Value{}
	for i := range was.Len() {
		before[was.Index(i).FieldByName(field).String()] = was.Index(i)
	}
	for i := range now.Len() {
		name := now.Index(i).FieldByName(field).String()
		at := fmt.Sprintf("%s[%s]", path, name)
		if b, ok := before[name]; ok {
			walk(out, at, b, now.Index(i))
			delete(before, name)
			continue
		}
		*out = append(*out, at)
	}
	for i := range was.Len() {
		if name := was.Index(i).FieldByName(field).String(); before[name].IsValid() {
			*out = append(*out, fmt.Sprintf("%s[%s]", path, name))
		}
	}
}

func walkMap(out *[]string, path string, was, now reflect.Value) {
	keys := map[string]bool{}
	for _, m := range []reflect.Value{was, now} {
		for _, k := range m.MapKeys() {
			keys[k.String()] = true
		}
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		key := reflect.ValueOf(k).Convert(was.Type().Key())
		b, n := was.MapIndex(key), now.MapIndex(key)
		if !b.IsValid() || !n.IsValid() || !apiequality.Semantic.DeepEqual(b.Interface(), n.Interface()) {
			*out = append(*out, fmt.Sprintf("%s[%s]", path, k))
		}
	}
}
