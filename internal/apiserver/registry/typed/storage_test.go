package typed_test

import (
	"context"
	"encoding/json"
	"reflect"
	"sort"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

const (
	uid      = "0b3f5a7c-0000-4000-8000-000000000000"
	revision = "7"
)

// storageServer does with rows what the generic machinery does between a request and the store, for
// objects held in a map.
type storageServer struct {
	kinds  map[string]resourcedef.Kind // by group/version/resource
	stored map[string]runtime.Object
}

type result struct {
	body []byte
	errs string
	warn []string
}

func newStorageServer(kinds []resourcedef.Kind) *storageServer {
	m := &storageServer{kinds: map[string]resourcedef.Kind{}}
	for _, k := range kinds {
		if k.Types.Internal.Kind != "" {
			continue // seen through conversions, which the scheme does
		}
		m.kinds[strings.Trim(k.Group+"/"+k.Version+"/"+k.Resource, "/")] = k
	}
	return m
}

func (m *storageServer) reset() { m.stored = map[string]runtime.Object{} }

// target is what a path names.
type target struct {
	kind           resourcedef.Kind
	ok             bool
	resource, name string
	sub            string
}

func (m *storageServer) find(path string) target {
	path, _, _ = strings.Cut(path, "?")
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) < 4 || parts[0] != "apis" {
		return target{}
	}
	gv, rest := parts[1]+"/"+parts[2], parts[3:]
	if rest[0] == "namespaces" && len(rest) > 2 {
		rest = rest[2:]
	}
	rest = append(rest, "", "")
	k, ok := m.kinds[gv+"/"+rest[0]]
	return target{kind: k, ok: ok, resource: rest[0], name: rest[1], sub: rest[2]}
}

// serves says that a request is one for this machine: a create, a replacement or a patch of an
// object or its status.
func (m *storageServer) serves(r request) bool {
	t := m.find(r.Path)
	if !t.ok || t.sub != "" && t.sub != "status" || len(r.Body) == 0 {
		return false
	}
	ct := contentType(r)
	return r.Method == "POST" || r.Method == "PUT" || r.Method == "PATCH" && ct != "application/apply-patch+yaml"
}

func contentType(r request) string {
	for k, v := range r.Headers {
		if strings.EqualFold(k, "Content-Type") && v != nil {
			return *v
		}
	}
	return "application/json"
}

func (m *storageServer) respond(r request) result {
	t := m.find(r.Path)
	if !m.serves(r) {
		return result{errs: "not served here"}
	}
	if r.Method == "POST" {
		return m.create(t, r.Body)
	}
	old, ok := m.stored[t.resource+"/"+t.name]
	if !ok && r.Method == "PUT" && t.kind.Rules.AllowCreateOnUpdate {
		return m.create(t, r.Body)
	}
	if !ok {
		return result{errs: "refused"}
	}
	body := []byte(r.Body)
	if r.Method == "PATCH" {
		raw, _ := json.Marshal(old)
		var err error
		switch contentType(r) {
		case "application/json-patch+json":
			var p jsonpatch.Patch
			if p, err = jsonpatch.DecodePatch(r.Body); err == nil {
				body, err = p.Apply(raw)
			}
		case "application/strategic-merge-patch+json":
			body, err = strategicpatch.StrategicMergePatch(raw, r.Body, t.kind.Types.New())
		default:
			body, err = jsonpatch.MergePatch(raw, r.Body)
		}
		if err != nil {
			return result{errs: "refused"}
		}
	}
	return m.update(t, body, old)
}

// decode is what reading an object does.
func decode(k resourcedef.Kind, raw []byte) (runtime.Object, error) {
	obj := k.Types.New()
	if err := json.Unmarshal(raw, obj); err != nil {
		return nil, err
	}
	if k.Rules.Default != nil {
		k.Rules.Default(obj)
	}
	return obj, nil
}

// store writes and reads an object as the store does, in protobuf.
func store(k resourcedef.Kind, obj runtime.Object) runtime.Object {
	type wire interface {
		Marshal() ([]byte, error)
		Unmarshal(raw []byte) error
	}
	raw, err := obj.(wire).Marshal()
	if err != nil {
		panic(err)
	}
	back := k.Types.New()
	if err := back.(wire).Unmarshal(raw); err != nil {
		panic(err)
	}
	if k.Rules.Default != nil {
		k.Rules.Default(back)
	}
	return back
}

func (m *storageServer) seedObject(t target, obj runtime.Object, warn []string) result {
	acc, _ := meta.Accessor(obj)
	acc.SetResourceVersion(revision)
	obj = store(t.kind, obj)
	raw, _ := json.Marshal(obj)
	m.stored[t.resource+"/"+acc.GetName()] = obj
	return result{body: raw, warn: warn}
}

func (m *storageServer) create(t target, raw []byte) result {
	k, r, ctx := t.kind, t.kind.Rules, context.Background()
	obj, err := decode(k, raw)
	if err != nil {
		return result{errs: "refused"}
	}
	if gvk := obj.GetObjectKind().GroupVersionKind(); gvk.Version != k.Version || gvk.Group != k.Group {
		return result{errs: "refused"}
	}
	acc, _ := meta.Accessor(obj)
	acc.SetUID(uid)
	if k.Types.Namespaced {
		acc.SetNamespace("rec")
	}
	if acc.GetName() == "" && acc.GetGenerateName() != "" {
		acc.SetName(acc.GetGenerateName() + "abcde")
	}
	if s := reflect.ValueOf(obj).Elem().FieldByName("Status"); k.Types.HasStatus {
		s.SetZero()
	}
	acc.SetGeneration(0)
	if !k.Types.NoGenerate {
		acc.SetGeneration(1)
	}
	if r.PrepareCreate != nil {
		r.PrepareCreate(ctx, obj)
	}
	name := r.ValidateName
	if name == nil {
		name = apivalidation.NameIsDNSSubdomain
	}
	errs := apivalidation.ValidateObjectMetaAccessor(acc, k.Types.Namespaced, name, field.NewPath("metadata"))
	if r.Validate != nil {
		errs = append(errs, r.Validate(ctx, obj)...)
	}
	if len(errs) > 0 {
		return result{errs: list(errs)}
	}
	return m.seedObject(t, obj, warn(ctx, r, obj))
}

func (m *storageServer) update(t target, raw []byte, old runtime.Object) result {
	k, r, ctx := t.kind, t.kind.Rules, context.Background()
	obj, err := decode(k, raw)
	if err != nil {
		return result{errs: "refused"}
	}
	acc, _ := meta.Accessor(obj)
	previous, _ := meta.Accessor(old)
	switch v := acc.GetResourceVersion(); {
	case v == "" && k.Rules.AllowUnconditionalUpdate:
		acc.SetResourceVersion(revision)
	case v != "" && v != revision:
		return result{errs: "refused"}
	}
	acc.SetGeneration(previous.GetGeneration())
	if acc.GetUID() == "" {
		acc.SetUID(previous.GetUID())
	}
	if acc.GetNamespace() == "" {
		acc.SetNamespace(previous.GetNamespace())
	}
	var errs field.ErrorList
	if t.sub == "status" {
		copyFieldsExcept(obj, old, "Status")
		if r.PrepareStatus != nil {
			r.PrepareStatus(ctx, obj, old)
		}
		errs = apivalidation.ValidateObjectMetaAccessorUpdate(acc, previous, field.NewPath("metadata"))
		if r.ValidateStatus != nil {
			errs = append(errs, r.ValidateStatus(ctx, obj, old)...)
		}
		if len(errs) > 0 {
			return result{errs: list(errs)}
		}
		return m.seedObject(t, obj, nil)
	}
	if k.Types.HasStatus {
		reflect.ValueOf(obj).Elem().FieldByName("Status").Set(reflect.ValueOf(old.DeepCopyObject()).Elem().FieldByName(
			"Status"))
	}
	if r.PrepareUpdate != nil {
		r.PrepareUpdate(ctx, obj, old)
	}
	if !k.Types.NoGenerate && acc.GetGeneration() == previous.GetGeneration() && !sameBut(obj, old) {
		acc.SetGeneration(previous.GetGeneration() + 1)
	}
	errs = apivalidation.ValidateObjectMetaAccessorUpdate(acc, previous, field.NewPath("metadata"))
	switch {
	case r.ValidateUpdate != nil:
		errs = append(errs, r.ValidateUpdate(ctx, obj, old)...)
	case r.Validate != nil:
		errs = append(errs, r.Validate(ctx, obj)...)
	}
	if len(errs) > 0 {
		return result{errs: list(errs)}
	}
	return m.seedObject(t, obj, warn(ctx, r, obj))
}

func warn(ctx context.Context, r resourcedef.Rules, obj runtime.Object) []string {
	if r.Warn == nil {
		return nil
	}
	return r.Warn(ctx, obj)
}

func copyFieldsExcept(obj, old runtime.Object, part string) {
	v, previous := reflect.ValueOf(obj).Elem(), reflect.ValueOf(old.DeepCopyObject()).Elem()
	for i := range v.NumField() {
		if n := v.Type().Field(i).Name; n != "TypeMeta" && n != "ObjectMeta" && n != part {
			v.Field(i).Set(previous.Field(i))
		}
	}
}

func sameBut(a, b runtime.Object) bool {
	x := a.DeepCopyObject()
	v, previous := reflect.ValueOf(x).Elem(), reflect.ValueOf(b.DeepCopyObject()).Elem()
	v.FieldByName("ObjectMeta").Set(reflect.ValueOf(metav1.ObjectMeta{}))
	previous.FieldByName("ObjectMeta").Set(reflect.ValueOf(metav1.ObjectMeta{}))
	v.FieldByName("TypeMeta").Set(previous.FieldByName("TypeMeta"))
	if s := v.FieldByName("Status"); s.IsValid() {
		s.Set(previous.FieldByName("Status"))
	}
	return apiequality.Semantic.DeepEqual(v.Interface(), previous.Interface())
}

func list(errs field.ErrorList) string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Field+"|"+strings.ReplaceAll(e.ErrorBody(), uid, "<uid>"))
	}
	sort.Strings(out)
	return strings.Join(out, "\n     ")
}
