package podspec

import (
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateAccessModes judges the ways of access to storage; both claims and volumes need one.
func ValidateAccessModes(modes []v1.PersistentVolumeAccessMode, path *field.Path) field.ErrorList {
	var f errorCollector
	once, others := false, false
	for _, m := range modes {
		supported(&f, path, m, v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOnce, v1.ReadWriteOncePod)
		switch m {
		case v1.ReadWriteOncePod:
			once = true
		case v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOnce:
			others = true
		}
	}
	if once && others {
		f.forbidden(path, "may not use ReadWriteOncePod with other access modes")
	}
	return f.list()
}

// ValidateClaim judges a claim's spec.
func ValidateClaim(s *v1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	var f errorCollector
	if len(s.AccessModes) == 0 {
		f.required(path.Child("accessModes"), "at least 1 access mode is required")
	}
	f.add(metavalidation.ValidateLabelSelector(s.Selector, metavalidation.LabelSelectorValidationOptions{},
		path.Child("selector"))...)
	f.add(ValidateAccessModes(s.AccessModes, path.Child("accessModes"))...)
	size, ok := s.Resources.Requests[v1.ResourceStorage]
	if !ok {
		f.required(path.Child("resources").Key(string(v1.ResourceStorage)), "")
	} else if size.Sign() <= 0 {
		f.invalid(path.Child("resources").Key(string(v1.ResourceStorage)), size.String(), "must be greater than zero")
	}
	if s.StorageClassName != nil && *s.StorageClassName != "" {
		f.subdomain(path.Child("storageClassName"), *s.StorageClassName)
	}
	if m := s.VolumeMode; m != nil {
		supported(&f, path.Child("volumeMode"), *m, v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem)
	}
	f.dataSource(s, path)
	if c := s.VolumeAttributesClassName; c != nil && *c != "" {
		f.subdomain(path.Child("volumeAttributesClassName"), *c)
	}
	return f.list()
}

func (f *errorCollector) dataSource(s *v1.PersistentVolumeClaimSpec, path *field.Path) {
	look := func(kind, name string, group *string, at *field.Path) {
		if name == "" {
			f.required(at.Child("name"), "")
		}
		if kind == "" {
			f.required(at.Child("kind"), "")
		}
		if (group == nil || *group == "") && kind != "PersistentVolumeClaim" {
			f.invalid(at, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
		}
		if group != nil && *group != "" {
			f.subdomain(at.Child("apiGroup"), *group)
		}
	}
	if d := s.DataSource; d != nil {
		look(d.Kind, d.Name, d.APIGroup, path.Child("dataSource"))
	}
	if d := s.DataSourceRef; d != nil {
		look(d.Kind, d.Name, d.APIGroup, path.Child("dataSourceRef"))
		if d.Namespace != nil && *d.Namespace != "" {
			f.label(path.Child("dataSourceRef", "namespace"), *d.Namespace)
			if s.DataSource != nil {
				f.invalid(path, path.Child("dataSource"),
					"may not be specified when dataSourceRef.namespace is specified")
			}
			return
		}
	}
	if a, b := s.DataSource, s.DataSourceRef; a != nil && b != nil {
		if a.Kind != b.Kind || a.Name != b.Name || !apiequality.Semantic.DeepEqual(a.APIGroup, b.APIGroup) {
			f.invalid(path, path.Child("dataSource"), "must match dataSourceRef")
		}
	}
}
