package registry

import (
	"context"
	"reflect"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// strategy is the create, update and delete strategy of every kind; what differs comes from its
// resourcedef.Kind. It is stateless and safe for concurrent use.
type strategy struct {
	runtime.ObjectTyper
	kind *resourcedef.Kind
}

var (
	_ rest.RESTCreateStrategy              = &strategy{}
	_ rest.RESTUpdateStrategy              = &strategy{}
	_ rest.RESTGracefulDeleteStrategy      = &strategy{}
	_ rest.GarbageCollectionDeleteStrategy = &strategy{}
	_ rest.ResetFieldsStrategy             = &strategy{}
	_ rest.DeclarativeValidationStrategy   = &strategy{}
)

// GenerateName implements names.NameGenerator.
func (s *strategy) GenerateName(base string) string {
	return names.SimpleNameGenerator.GenerateName(base)
}
func (s *strategy) NamespaceScoped() bool { return s.kind.Types.Namespaced }
func (s *strategy) AllowCreateOnUpdate(context.Context) bool {
	return s.kind.Rules.AllowCreateOnUpdate
}
func (s *strategy) AllowUnconditionalUpdate(context.Context) bool {
	return s.kind.Rules.AllowUnconditionalUpdate
}

// Canonicalize implements rest.RESTCreateStrategy and rest.RESTUpdateStrategy. It is called after
// validation.
func (s *strategy) Canonicalize(obj runtime.Object) {
	if f := s.kind.Stored.Canonicalize; f != nil {
		f(obj)
	}
}

// PrepareForCreate clears the status, sets generation 1 and calls the kind's PrepareCreate.
func (s *strategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	if s.kind.Types.HasStatus && !s.kind.Types.KeepStatus {
		structField(obj, "Status").SetZero()
	}
	if !s.kind.Types.NoGenerate {
		setGeneration(obj, 1)
	}
	if p := s.kind.Rules.PrepareCreate; p != nil {
		p(ctx, obj)
	}
}

// PrepareForUpdate keeps the stored status, calls the kind's PrepareUpdate and increments the
// generation if anything but metadata and status changes.
func (s *strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	if s.kind.Types.HasStatus {
		structField(obj, "Status").Set(structField(old.DeepCopyObject(), "Status"))
	}
	if p := s.kind.Rules.PrepareUpdate; p != nil {
		p(ctx, obj, old)
	}
	if previous := generation(old); !s.kind.Types.NoGenerate && generation(obj) == previous && !sameContent(obj, old) {
		setGeneration(obj, previous+1)
	}
}

// Validate checks metadata, then calls the kind's Validate.
func (s *strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	errs := s.validateMeta(obj)
	if v := s.kind.Rules.Validate; v != nil {
		errs = append(errs, v(ctx, obj)...)
	}
	return errs
}

// ValidateUpdate calls the kind's ValidateUpdate, or Validate if it has none. The library has
// validated metadata, except for finalizers and, for some kinds, generateName.
func (s *strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	var errs field.ErrorList
	if m, err := meta.Accessor(obj); err == nil {
		errs = append(s.updatedGenerateName(obj), s.finalizers(m)...)
	}
	switch r := &s.kind.Rules; {
	case r.ValidateUpdate != nil:
		return append(errs, r.ValidateUpdate(ctx, obj, old)...)
	case r.Validate != nil:
		return append(errs, r.Validate(ctx, obj)...)
	}
	return errs
}

// DeclarativeValidationConfig returns the zero value.
func (s *strategy) DeclarativeValidationConfig(context.Context, runtime.Object,
	runtime.Object) rest.DeclarativeValidationConfig {
	return rest.DeclarativeValidationConfig{}
}

// validateMeta checks the metadata of a new object, by Types.ValidateMeta if the kind has it.
func (s *strategy) validateMeta(obj runtime.Object) field.ErrorList {
	if v := s.kind.Types.ValidateMeta; v != nil {
		return v(obj)
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("metadata"), err)}
	}
	name := s.kind.Rules.ValidateName
	if name == nil {
		name = validation.NameIsDNSSubdomain
	}
	errs := validation.ValidateObjectMetaAccessor(m, s.kind.Types.Namespaced, name, field.NewPath("metadata"))
	return append(errs, s.finalizers(m)...)
}

// finalizers checks that each finalizer is a known name or has a domain, which the library does not
// check. Pods and Events have the check among their own rules; kinds of some groups have none
// upstream.
func (s *strategy) finalizers(m metav1.Object) field.ErrorList {
	switch {
	case s.kind.Group == "" && (s.kind.Resource == "pods" || s.kind.Resource == "events"):
		return nil
	case s.kind.Group == "node.k8s.io", s.kind.Group == "coordination.k8s.io",
		s.kind.Group == "admissionregistration.k8s.io", s.kind.Group == "policy":
		return nil
	}
	return podspec.ValidateFinalizers(m.GetFinalizers(), field.NewPath("metadata", "finalizers"))
}

// WarningsOnCreate returns the kind's warnings.
func (s *strategy) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	if w := s.kind.Rules.Warn; w != nil {
		return w(ctx, obj)
	}
	return nil
}

// WarningsOnUpdate returns the kind's WarnUpdate, or its warnings; those of workloads only if the
// update changes the spec.
func (s *strategy) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	if w := s.kind.Rules.WarnUpdate; w != nil {
		return w(ctx, obj, old)
	}
	if hasTemplate(s.kind) && generation(obj) == generation(old) {
		return nil
	}
	return s.WarningsOnCreate(ctx, obj)
}

// hasTemplate reports whether a kind's warnings are about a Pod template.
func hasTemplate(k *resourcedef.Kind) bool {
	return k.Group == "apps" || k.Group == "batch" ||
		k.Group == "" && (k.Resource == "replicationcontrollers" || k.Resource == "podtemplates")
}

// CheckGracefulDelete implements rest.RESTGracefulDeleteStrategy with the kind's rule.
func (s *strategy) CheckGracefulDelete(ctx context.Context, obj runtime.Object, o *metav1.DeleteOptions) bool {
	return s.kind.Rules.CheckGracefulDelete != nil && s.kind.Rules.CheckGracefulDelete(ctx, obj, o)
}

// DefaultGarbageCollectionPolicy returns upstream's policy for dependents when a delete names none.
func (s *strategy) DefaultGarbageCollectionPolicy(context.Context) rest.GarbageCollectionPolicy {
	switch {
	case s.kind.Resource == "events":
		return rest.Unsupported
	case s.kind.Group == "batch" && s.kind.Resource == "jobs",
		s.kind.Group == "" && s.kind.Resource == "replicationcontrollers":
		return rest.OrphanDependents
	}
	return rest.DeleteDependents
}

// GetResetFields implements rest.ResetFieldsStrategy: the main endpoint ignores status, so
// server-side apply does not own it here.
func (s *strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if !s.kind.Types.HasStatus {
		return nil
	}
	return resetFields(s.kind, append([]string{"status"}, s.kind.Types.ResetFields...))
}

// resetFields returns the set of fields of a kind, given by their paths, for GetResetFields.
func resetFields(k *resourcedef.Kind, paths []string) map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet()
	for _, p := range paths {
		var path fieldpath.Path
		for name := range strings.SplitSeq(p, ".") {
			path = append(path, fieldpath.PathElement{FieldName: &name})
		}
		set.Insert(path)
	}
	out := map[fieldpath.APIVersion]*fieldpath.Set{}
	for _, v := range append([]string{k.Version}, k.Types.OtherVersions...) {
		out[fieldpath.APIVersion(metav1.GroupVersion{Group: k.Group, Version: v}.String())] = set
	}
	return out
}

// structField returns a top-level field of an API object by its Go name.
func structField(obj runtime.Object, name string) reflect.Value {
	return reflect.ValueOf(obj).Elem().FieldByName(name)
}

// sameContent reports whether two objects of one kind differ in metadata and status at most.
func sameContent(a, b runtime.Object) bool {
	va, vb := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range va.NumField() {
		switch va.Type().Field(i).Name {
		case "TypeMeta", "ObjectMeta", "Status":
			continue
		}
		if !apiequality.Semantic.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			return false
		}
	}
	return true
}

// generation returns metadata.generation.
func generation(obj runtime.Object) int64 {
	m, err := meta.Accessor(obj)
	if err != nil {
		return 0
	}
	return m.GetGeneration()
}

// setGeneration sets metadata.generation.
func setGeneration(obj runtime.Object, n int64) {
	if m, err := meta.Accessor(obj); err == nil {
		m.SetGeneration(n)
	}
}
