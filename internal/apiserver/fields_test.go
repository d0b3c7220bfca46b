package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// How deep a field may lie to be tried, and how many of the fields of Pod templates are: those of
// Pods are tried all.
const (
	deepest        = 14
	everyTemplated = 9
)

// TestEveryField sets each field of an object of each kind to unusual values, one at a time: no
// rule may panic, none may find a fault of the server's own, and what a rule refuses it names by a
// path that the kind has; so with the status and the rules of its endpoint. What an update refuses
// or ignores of what creation accepts is compared with testdata/updates.txt, which is upstream's:
// GANTRY_UPDATE=1 writes it anew, to be read before it is kept.
func TestEveryField(t *testing.T) {
	kinds, s := rows(t)
	byKind := map[string]*resourcedef.Kind{}
	for i := range kinds {
		if k := &kinds[i]; k.Types.Internal.Kind == "" {
			byKind[metav1.GroupVersion{Group: k.Group, Version: k.Version}.String()+"/"+k.Kind] = k
		}
	}
	var fixed []string
	for _, line := range someObjects() {
		raw, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(line, "NS", "default")))
		if err != nil {
			t.Fatal(err)
		}
		var head metav1.PartialObjectMetadata
		if err := json.Unmarshal(raw, &head); err != nil {
			t.Fatal(err)
		}
		k, ok := byKind[head.APIVersion+"/"+head.Kind]
		if !ok {
			continue
		}
		t.Run(head.Kind, func(t *testing.T) {
			obj := k.Types.New()
			if err := json.Unmarshal(raw, obj); err != nil {
				t.Fatal(err)
			}
			m := &mutant{t: t, k: k, fill: s.Scheme.Default, outcome: map[string]string{}}
			m.old = m.created(obj)
			m.obj = m.old.DeepCopyObject()
			m.look = m.check
			m.walk(reflect.ValueOf(m.obj).Elem(), "", 0)
			if m.k.Rules.ValidateStatus != nil {
				m.look = m.checkStatus
				m.walk(reflect.ValueOf(m.obj).Elem().FieldByName("Status"), "status", 1)
			}
			for _, line := range m.summary() {
				fixed = append(fixed, head.Kind+" "+line)
			}
		})
	}
	slices.Sort(fixed)
	got := strings.Join(fixed, "\n") + "\n"
	if os.Getenv("GANTRY_UPDATE") != "" {
		if err := os.WriteFile("testdata/updates.txt", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/updates.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		a, b := strings.Split(got, "\n"), strings.Split(string(want), "\n")
		for _, l := range a {
			if !slices.Contains(b, l) {
				t.Error("new:", l)
			}
		}
		for _, l := range b {
			if !slices.Contains(a, l) {
				t.Error("gone:", l)
			}
		}
	}
}

// mutant is one object whose fields are changed one after the other, each change taken back before
// the next.
type mutant struct {
	t       *testing.T
	k       *resourcedef.Kind
	obj     runtime.Object // the same, to be changed
	old     runtime.Object // as it is stored
	fill    func(runtime.Object)
	look    func(path string, value any)
	tried   int
	known   []string          // values that a refusal of the last ones named
	outcome map[string]string // what updates do with a field that creation accepts: free, refused, ignored, mixed
}

func (m *mutant) created(obj runtime.Object) runtime.Object {
	o := obj.DeepCopyObject()
	m.fill(o)
	if a, err := meta.Accessor(o); err == nil {
		a.SetUID("11111111-1111-1111-1111-111111111111")
		a.SetNamespace("default")
		a.SetResourceVersion("1")
	}
	if m.k.Types.HasStatus && !m.k.Types.KeepStatus {
		reflect.ValueOf(o).Elem().FieldByName("Status").SetZero()
	}
	if p := m.k.Rules.PrepareCreate; p != nil {
		p(context.Background(), o)
	}
	return o
}

// walk visits a value and all below it. What is not there is made for the visit.
func (m *mutant) walk(v reflect.Value, path string, depth int) {
	if depth > deepest {
		return
	}
	switch v.Interface().(type) {
	case metav1.TypeMeta, metav1.ObjectMeta:
		return
	case resource.Quantity, metav1.Time, metav1.MicroTime, intstr.IntOrString, runtime.RawExtension, metav1.FieldsV1:
		m.try(v, path)
		return
	}
	kept := reflect.New(v.Type()).Elem()
	kept.Set(v)
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "status" && depth == 0:
			case name == "adminAccess": // its rule asks the server about the namespace
			case name == "":
				m.walk(v.Field(i), path, depth)
			default:
				m.walk(v.Field(i), strings.TrimPrefix(path+"."+name, "."), depth+1)
			}
		}
	case reflect.Pointer:
		m.try(v, path)
		v.Set(reflect.New(v.Type().Elem()))
		if !kept.IsNil() {
			v.Elem().Set(kept.Elem())
		}
		m.walk(v.Elem(), path, depth)
	case reflect.Slice:
		m.try(v, path)
		if v.Type().Elem().Kind() == reflect.Uint8 {
			break
		}
		n := max(v.Len(), 1)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		reflect.Copy(v, kept)
		m.walk(v.Index(0), path+"[]", depth+1)
	default:
		m.try(v, path)
	}
	v.Set(kept)
}

// unusualValues are values of a type that fit few fields, or most.
func unusualValues(t reflect.Type, now reflect.Value) []any {
	switch now.Interface().(type) {
	case resource.Quantity:
		return []any{resource.MustParse("-1"), resource.MustParse("0"), resource.MustParse("1500m"),
			resource.MustParse("8E")}
	case metav1.Time:
		return []any{metav1.Time{}, metav1.Unix(1, 0)}
	case metav1.MicroTime:
		return []any{metav1.MicroTime{}, metav1.NewMicroTime(time.Unix(1, 0))}
	case intstr.IntOrString:
		return []any{intstr.FromInt32(-1), intstr.FromInt32(0), intstr.FromInt32(2), intstr.FromString("150%"),
			intstr.FromString("30%"), intstr.FromString("A b")}
	case runtime.RawExtension:
		return []any{runtime.RawExtension{}, runtime.RawExtension{Raw: []byte(`{"z":1}`)}}
	}
	switch t.Kind() {
	case reflect.String:
		return []any{"", "Bogus", "a b!", "a", "example.com/a", "10.0.0.1", strings.Repeat("x", 300)}
	case reflect.Int32, reflect.Int64, reflect.Int:
		return []any{-1, 0, 1, 7, 1 << 30}
	case reflect.Bool:
		return []any{!now.Bool()}
	}
	return nil
}

// try gives a place each of its unusual values, and checks what becomes of the object.
func (m *mutant) try(v reflect.Value, path string) {
	m.tried++
	if strings.Contains(path, "emplate.spec.") && m.k.Kind != "ResourceClaimTemplate" && m.tried%everyTemplated != 0 {
		return
	}
	kept := reflect.New(v.Type()).Elem()
	kept.Set(v)
	defer v.Set(kept)
	m.known = nil
	for _, x := range unusualValues(v.Type(), kept) {
		v.Set(reflect.ValueOf(x).Convert(v.Type()))
		m.look(path, x)
	}
	if v.Kind() == reflect.String { // what a refusal says would be fine
		for _, x := range slices.Clone(m.known) {
			v.SetString(x)
			m.look(path, x)
		}
	}
	switch v.Kind() {
	case reflect.Slice:
		v.SetZero()
		m.look(path, nil)
		double := reflect.MakeSlice(v.Type(), 0, 0)
		one := reflect.Zero(v.Type().Elem())
		if kept.Len() > 0 {
			one = kept.Index(0)
		}
		v.Set(reflect.Append(double, one, one))
		m.look(path, "the first, twice")
	case reflect.Pointer:
		v.SetZero()
		m.look(path, nil)
		v.Set(reflect.New(v.Type().Elem()))
		m.look(path, "zero")
	case reflect.Map:
		v.SetZero()
		m.look(path, nil)
		for _, key := range []string{"", "a b!", "a", "example.com/a"} {
			made := reflect.MakeMap(v.Type())
			value := reflect.Zero(v.Type().Elem())
			if value.Kind() == reflect.String {
				value = reflect.ValueOf("no spaces!").Convert(value.Type())
			}
			made.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), value)
			v.Set(made)
			m.look(path, key)
		}
	}
}

// check sends the object as it is now through creation and through an update.
func (m *mutant) check(path string, value any) {
	ctx := context.Background()
	defer func() {
		if p := recover(); p != nil {
			m.t.Fatalf("%s = %.40v: got panic %v, want none", path, value, p)
		}
	}()
	o := m.created(m.obj)
	if r := m.k.Rules.Warn; r != nil {
		r(ctx, o)
	}
	if !m.hasNoErrors(path, value, m.validate(o)) || sameBut(o, m.old) {
		return // refused at once, or nothing that an update could change
	}
	now := o.DeepCopyObject() // as who reads the object, changes it and writes it back would send it
	if m.k.Types.HasStatus {
		reflect.ValueOf(now).Elem().FieldByName("Status").Set(
			reflect.ValueOf(m.old.DeepCopyObject()).Elem().FieldByName("Status"))
	}
	if p := m.k.Rules.PrepareUpdate; p != nil {
		p(ctx, now, m.old.DeepCopyObject())
	}
	what, errs := "free", field.ErrorList(nil)
	if validate := m.k.Rules.ValidateUpdate; validate != nil {
		errs = validate(ctx, now, m.old.DeepCopyObject())
	} else {
		errs = m.validate(now)
	}
	switch accepted := m.hasNoErrors(path, value, errs); {
	case !accepted:
		what = "refused"
	case sameBut(now, m.old):
		what = "ignored"
	}
	if previous, ok := m.outcome[path]; ok && previous != what {
		what = "mixed"
	}
	m.outcome[path] = what
}

// checkStatus sends the object as it is now through an update of its status.
func (m *mutant) checkStatus(path string, value any) {
	ctx := context.Background()
	defer func() {
		if p := recover(); p != nil {
			m.t.Fatalf("%s = %.40v: got panic %v, want none", path, value, p)
		}
	}()
	now := m.obj.DeepCopyObject()
	m.fill(now)
	if p := m.k.Rules.PrepareStatus; p != nil {
		p(ctx, now, m.old.DeepCopyObject())
	}
	m.hasNoErrors(path, value, m.k.Rules.ValidateStatus(ctx, now, m.old.DeepCopyObject()))
}

func (m *mutant) validate(o runtime.Object) field.ErrorList {
	if v := m.k.Rules.Validate; v != nil {
		return v(context.Background(), o)
	}
	return nil
}

// sameBut compares two objects but for metadata and status.
func sameBut(a, b runtime.Object) bool {
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range x.NumField() {
		if name := x.Type().Field(i).Name; name != "ObjectMeta" && name != "TypeMeta" && name != "Status" &&
			!apiequality.Semantic.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			return false
		}
	}
	return true
}

// hasNoErrors says whether nothing was found, and looks at what was.
func (m *mutant) hasNoErrors(path string, value any, errs field.ErrorList) bool {
	for _, e := range errs {
		if list, ok := strings.CutPrefix(e.Detail, "supported values: "); ok && e.Type == field.ErrorTypeNotSupported {
			for _, x := range strings.Split(list, ", ") {
				if x = strings.Trim(x, `"`); !slices.Contains(m.known, x) && len(m.known) < 12 {
					m.known = append(m.known, x)
				}
			}
		}
		// upstream's word for two addresses, one of which is none
		if e.Type == field.ErrorTypeInternal && !strings.Contains(e.Detail, "dual stack") {
			m.t.Errorf("%s = %.40v: got %v, want no internal error", path, value, e)
		}
		if !exists(reflect.TypeOf(m.obj), e.Field) && !isUpstreamPath(e.Field) {
			m.t.Errorf("%s = %.40v: the error names %q, which is no field of the kind", path, value, e.Field)
		}
	}
	return len(errs) == 0
}

// exists says that a type has a field of this path.
func exists(t reflect.Type, path string) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if path == "" || path == "<nil>" {
		return true
	}
	if strings.HasPrefix(path, "[") {
		end := strings.Index(path, "]")
		if end < 0 || t.Kind() != reflect.Slice && t.Kind() != reflect.Map {
			return false
		}
		return exists(t.Elem(), strings.TrimPrefix(path[end+1:], "."))
	}
	if t.Kind() == reflect.Map {
		return true // a key written with a dot
	}
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && f.Anonymous && exists(f.Type, path) {
			return true
		}
		rest, ok := strings.CutPrefix(path, name)
		if name != "" && ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return exists(f.Type, strings.TrimPrefix(rest, "."))
		}
	}
	return false
}

// summary names the fields that an update may not change: a field stands for all below it where it
// is the same with them.
func (m *mutant) summary() []string {
	below := map[string]map[string]bool{}
	for path, what := range m.outcome {
		for p := path; p != ""; {
			if below[p] == nil {
				below[p] = map[string]bool{}
			}
			below[p][what] = true
			p = p[:max(strings.LastIndexAny(p, ".["), 0)]
		}
	}
	var out []string
	for _, path := range slices.Sorted(maps.Keys(below)) {
		what := slices.Collect(maps.Keys(below[path]))
		parent := path[:max(strings.LastIndexAny(path, ".["), 0)]
		if len(what) == 1 && what[0] != "free" && len(below[parent]) != 1 {
			out = append(out, fmt.Sprintf("%s: %s", path, what[0]))
		}
	}
	return out
}
