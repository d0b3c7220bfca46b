package podspec

import (
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// ValidateAccessModes validates the access modes of a claim or a volume, which needs at least one.
func ValidateAccessModes(modes []v1.PersistentVolumeAccessMode, path *field.Path) field.ErrorList {
	var f typed.Errors
	once, others := false, false
	for _, m := range modes {
		typed.Supported(&f, path, m, v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOnce, v1.ReadWriteOncePod)
		switch m {
		case v1.ReadWriteOncePod:
			once = true
		case v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOnce:
			others = true
		}
	}
	if once && others {
		f.Forbidden(path, "may not use ReadWriteOncePod with other access modes")
	}
	return f.List()
}

// ValidateClaim validates the spec of a new PersistentVolumeClaim.
func ValidateClaim(s *v1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	return ValidateChangedClaim(s, &v1.PersistentVolumeClaimSpec{}, path)
}

// ValidateChangedClaim validates the spec of a PersistentVolumeClaim that has old stored. Whatever
// group the stored data source names, the new one may name any.
func ValidateChangedClaim(s, old *v1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	var f typed.Errors
	if len(s.AccessModes) == 0 {
		f.Required(path.Child("accessModes"), "at least 1 access mode is required")
	}
	f.Add(metavalidation.ValidateLabelSelector(s.Selector, metavalidation.LabelSelectorValidationOptions{},
		path.Child("selector"))...)
	f.Add(ValidateAccessModes(s.AccessModes, path.Child("accessModes"))...)
	size, ok := s.Resources.Requests[v1.ResourceStorage]
	if !ok {
		f.Required(path.Child("resources").Key(string(v1.ResourceStorage)), "")
	} else if size.Sign() <= 0 {
		f.Invalid(path.Child("resources").Key(string(v1.ResourceStorage)), size.String(), "must be greater than zero")
	}
	if s.StorageClassName != nil && *s.StorageClassName != "" {
		f.DNSSubdomain(path.Child("storageClassName"), *s.StorageClassName)
	}
	if m := s.VolumeMode; m != nil {
		typed.Supported(&f, path.Child("volumeMode"), *m, v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem)
	}
	anyGroup := old.DataSource != nil && old.DataSource.APIGroup != nil ||
		old.DataSourceRef != nil && old.DataSourceRef.APIGroup != nil
	validateDataSource(&f, s, anyGroup, path)
	if c := s.VolumeAttributesClassName; c != nil && *c != "" {
		f.DNSSubdomain(path.Child("volumeAttributesClassName"), *c)
	}
	return f.List()
}

// validateDataSource validates dataSource and dataSourceRef, which must agree if both are set.
func validateDataSource(f *typed.Errors, s *v1.PersistentVolumeClaimSpec, anyGroup bool, path *field.Path) {
	look := func(kind, name string, group *string, at *field.Path) {
		if name == "" {
			f.Required(at.Child("name"), "")
		}
		if kind == "" {
			f.Required(at.Child("kind"), "")
		}
		if (group == nil || *group == "") && kind != "PersistentVolumeClaim" {
			f.Invalid(at, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
		}
		if group != nil && *group != "" && !anyGroup {
			f.DNSSubdomain(at.Child("apiGroup"), *group)
		}
	}
	if d := s.DataSource; d != nil {
		look(d.Kind, d.Name, d.APIGroup, path.Child("dataSource"))
	}
	if d := s.DataSourceRef; d != nil {
		look(d.Kind, d.Name, d.APIGroup, path.Child("dataSourceRef"))
		if d.Namespace != nil && *d.Namespace != "" {
			f.DNSLabel(path.Child("dataSourceRef", "namespace"), *d.Namespace)
			if s.DataSource != nil {
				f.Invalid(path, path.Child("dataSource"),
					"may not be specified when dataSourceRef.namespace is specified")
			}
			return
		}
	}
	if a, b := s.DataSource, s.DataSourceRef; a != nil && b != nil {
		if a.Kind != b.Kind || a.Name != b.Name || !apiequality.Semantic.DeepEqual(a.APIGroup, b.APIGroup) {
			f.Invalid(path, path.Child("dataSource"), "must match dataSourceRef")
		}
	}
}

// WarnClaim returns the warnings about the sizes of a PersistentVolumeClaim that are not whole
// bytes.
func WarnClaim(s *v1.PersistentVolumeClaimSpec, path *field.Path) []string {
	w := &warnings{}
	w.fractions(s.Resources.Requests, path.Child("resources", "requests"), v1.ResourceStorage)
	w.fractions(s.Resources.Limits, path.Child("resources", "limits"), v1.ResourceStorage)
	return w.out
}
