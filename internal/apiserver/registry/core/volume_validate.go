package core

import (
	"fmt"
	"path"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
)

func validateVolume(p *v1.PersistentVolume) field.ErrorList {
	spec := field.NewPath("spec")
	s := &p.Spec
	errs := volumeBasics(s, spec)
	errs = append(errs, volumeSource(p, spec)...)
	if h := s.HostPath; h != nil && path.Clean(h.Path) == "/" &&
		s.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimRecycle {
		errs = append(errs, field.Forbidden(spec.Child("persistentVolumeReclaimPolicy"),
			"may not be 'recycle' for a hostPath mount of '/'"))
	}
	if s.StorageClassName != "" {
		errs = append(errs, each(spec.Child("storageClassName"), s.StorageClassName,
			utilvalidation.IsDNS1123Subdomain(s.StorageClassName))...)
	}
	if m := s.VolumeMode; m != nil && *m != v1.PersistentVolumeBlock && *m != v1.PersistentVolumeFilesystem {
		errs = append(errs, field.NotSupported(spec.Child("volumeMode"), *m,
			[]v1.PersistentVolumeMode{v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem}))
	}
	return append(errs, volumeAttributes(s, spec)...)
}

// volumeBasics validates what every volume says of its size, its use and its place.
func volumeBasics(s *v1.PersistentVolumeSpec, spec *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(s.AccessModes) == 0 {
		errs = append(errs, field.Required(spec.Child("accessModes"), ""))
	}
	errs = append(errs, podspec.ValidateAccessModes(s.AccessModes, spec.Child("accessModes"))...)
	if len(s.Capacity) == 0 {
		errs = append(errs, field.Required(spec.Child("capacity"), ""))
	}
	if _, ok := s.Capacity[v1.ResourceStorage]; !ok || len(s.Capacity) > 1 {
		errs = append(errs, field.NotSupported(spec.Child("capacity"), s.Capacity,
			[]v1.ResourceName{v1.ResourceStorage}))
	}
	for _, k := range podspec.SortedResources(s.Capacity) {
		q, at := s.Capacity[k], spec.Child("capacity").Key(string(k))
		errs = append(errs, notNegativeQuantity(q, at)...)
		if q.Sign() <= 0 {
			errs = append(errs, field.Invalid(at, q.String(), "must be greater than zero"))
		}
	}
	switch s.PersistentVolumeReclaimPolicy {
	case "", v1.PersistentVolumeReclaimDelete, v1.PersistentVolumeReclaimRecycle, v1.PersistentVolumeReclaimRetain:
	default:
		errs = append(errs, field.NotSupported(spec.Child("persistentVolumeReclaimPolicy"),
			s.PersistentVolumeReclaimPolicy,
			[]v1.PersistentVolumeReclaimPolicy{v1.PersistentVolumeReclaimDelete, v1.PersistentVolumeReclaimRecycle,
				v1.PersistentVolumeReclaimRetain}))
	}
	if a := s.NodeAffinity; a != nil {
		if a.Required == nil {
			errs = append(errs, field.Required(spec.Child("nodeAffinity", "required"),
				"must specify required node constraints"))
		} else {
			errs = append(errs, podspec.ValidateNodeSelector(a.Required, spec.Child("nodeAffinity", "required"))...)
		}
	}
	return errs
}

// notNegativeQuantity is what is said of sizes below zero, before any other rule.
func notNegativeQuantity(q resource.Quantity, at *field.Path) field.ErrorList {
	if n := q.Value(); n < 0 {
		return field.ErrorList{field.Invalid(at, n, "must be a valid resource quantity")}
	}
	return nil
}

// sourceOrder is the order in which upstream looks at the sources, under the names by which it
// refuses a second one.
func sourceOrder() []string {
	return []string{
		"hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte",
		"cephFS", "iscsi", "cinder", "fc", "flexVolume", "azureFile",
		"vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi",
	}
}

// volumeSource wants one source, validates the first and refuses the others.
func volumeSource(p *v1.PersistentVolume, spec *field.Path) field.ErrorList {
	var errs field.ErrorList
	n, given := 0, reflect.ValueOf(&p.Spec.PersistentVolumeSource).Elem()
	for _, name := range sourceOrder() {
		same := func(f string) bool { return strings.EqualFold(f, name) }
		source := given.FieldByNameFunc(same)
		if source.IsNil() {
			continue
		}
		if n++; n > 1 && name != "flexVolume" { // upstream never counts that one as too many
			errs = append(errs, field.Forbidden(spec.Child(name), "may not specify more than 1 volume type"))
			continue
		}
		var only v1.PersistentVolumeSource
		reflect.ValueOf(&only).Elem().FieldByNameFunc(same).Set(source)
		errs = append(errs, podspec.ValidatePersistentSource(&only, p.Name, spec)...)
		if only.Local != nil && p.Spec.NodeAffinity == nil {
			errs = append(errs, field.Required(spec.Child("nodeAffinity"), "Local volume requires node affinity"))
		}
	}
	if n == 0 {
		errs = append(errs, field.Required(spec, "must specify a volume type"))
	}
	return errs
}

// volumeAttributes wants the class of a volume's attributes to have a name, and a driver that knows
// such classes.
func volumeAttributes(s *v1.PersistentVolumeSpec, spec *field.Path) field.ErrorList {
	c, at := s.VolumeAttributesClassName, spec.Child("volumeAttributesClassName")
	if c == nil {
		return nil
	}
	var errs field.ErrorList
	if *c == "" {
		errs = append(errs, field.Required(at, "an empty string is disallowed"))
	} else {
		errs = each(at, *c, utilvalidation.IsDNS1123Subdomain(*c))
	}
	if s.CSI == nil {
		errs = append(errs,
			field.Required(spec.Child("csi"), "has to be specified when using volumeAttributesClassName"))
	}
	return errs
}

// ValidateInlineVolume validates a volume that stands inside a VolumeAttachment: one of a driver,
// without what only an object of its own has.
func ValidateInlineVolume(s *v1.PersistentVolumeSpec, spec *field.Path) field.ErrorList {
	const inline = "in the context of inline volumes"
	var errs field.ErrorList
	forbid := func(child string, set bool) {
		if set {
			errs = append(errs, field.Forbidden(spec.Child(child), "may not be specified "+inline))
		}
	}
	forbid("claimRef", s.ClaimRef != nil)
	forbid("capacity", len(s.Capacity) > 0)
	if s.CSI == nil {
		errs = append(errs, field.Required(spec.Child("csi"), "has to be specified "+inline))
	}
	if len(s.AccessModes) == 0 {
		errs = append(errs, field.Required(spec.Child("accessModes"), ""))
	}
	errs = append(errs, podspec.ValidateAccessModes(s.AccessModes, spec.Child("accessModes"))...)
	if p := s.PersistentVolumeReclaimPolicy; p != "" && p != v1.PersistentVolumeReclaimRetain {
		errs = append(errs, field.Forbidden(spec.Child("persistentVolumeReclaimPolicy"), "may only be Retain "+inline))
	}
	forbid("nodeAffinity", s.NodeAffinity != nil)
	errs = append(errs, volumeSource(&v1.PersistentVolume{Spec: *s}, spec)...)
	forbid("storageClassName", s.StorageClassName != "")
	if m := s.VolumeMode; m != nil && *m != v1.PersistentVolumeFilesystem {
		errs = append(errs,
			field.Forbidden(spec.Child("volumeMode"), "may not specify volumeMode other than Filesystem "+inline))
	}
	return append(errs, volumeAttributes(s, spec)...)
}

func validateVolumeUpdate(p, old *v1.PersistentVolume) field.ErrorList {
	errs := validateVolume(p)
	now, previous := p.Spec.PersistentVolumeSource.DeepCopy(), old.Spec.PersistentVolumeSource.DeepCopy()
	if now.CSI != nil && previous.CSI != nil && previous.CSI.ControllerExpandSecretRef == nil {
		// The secret for expansion may be added where there was none.
		now.CSI.ControllerExpandSecretRef = nil
	}
	if !apiequality.Semantic.DeepEqual(now, previous) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "persistentvolumesource"),
			fmt.Sprintf("spec.persistentvolumesource is immutable after creation\n%v", diff.Diff(previous, now))))
	}
	errs = append(errs, validation.ValidateImmutableField(p.Spec.VolumeMode, old.Spec.VolumeMode,
		field.NewPath("volumeMode"))...)
	if old.Spec.NodeAffinity != nil && !renamedLabels(p.Spec.NodeAffinity, old.Spec.NodeAffinity) {
		errs = append(errs, field.Invalid(field.NewPath("nodeAffinity"), p.Spec.NodeAffinity,
			validation.FieldImmutableErrorMsg+", except for updating from beta label to GA"))
	}
	if old.Spec.VolumeAttributesClassName != nil && p.Spec.VolumeAttributesClassName == nil {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "volumeAttributesClassName"),
			"update from non-nil value to nil is forbidden"))
	}
	return errs
}

// renamedLabels says that an affinity differs from the stored one at most by labels of Nodes that
// go by their new names.
func renamedLabels(now, previous *v1.VolumeNodeAffinity) bool {
	if now == nil || now.Required == nil || previous.Required == nil ||
		len(now.Required.NodeSelectorTerms) != len(previous.Required.NodeSelectorTerms) {
		return false
	}
	previous = previous.DeepCopy()
	for i := range previous.Required.NodeSelectorTerms {
		list, fresh := previous.Required.NodeSelectorTerms[i].MatchExpressions,
			now.Required.NodeSelectorTerms[i].MatchExpressions
		for k := range list {
			// The empty text is the new name of a label that was not renamed, for v1.37.2 too.
			if name := newLabel(list[k].Key); k < len(fresh) && fresh[k].Key == name {
				list[k].Key = name
			}
		}
	}
	return apiequality.Semantic.DeepEqual(now, previous)
}

// newLabel is what an old label of Nodes is called now; "" when it was not renamed.
func newLabel(old string) string {
	switch old {
	case v1.LabelFailureDomainBetaZone:
		return v1.LabelTopologyZone
	case v1.LabelFailureDomainBetaRegion:
		return v1.LabelTopologyRegion
	case v1.LabelInstanceType:
		return v1.LabelInstanceTypeStable
	case "beta.kubernetes.io/os":
		return v1.LabelOSStable
	case "beta.kubernetes.io/arch":
		return v1.LabelArchStable
	}
	return ""
}

func warnVolume(p *v1.PersistentVolume) []string {
	out := betaClass(p.Annotations)
	if a := p.Spec.NodeAffinity; a != nil && a.Required != nil {
		for i := range a.Required.NodeSelectorTerms {
			at := field.NewPath("spec", "nodeAffinity", "required", "nodeSelectorTerms").Index(i)
			out = append(out, podspec.NodeTermWarnings(&a.Required.NodeSelectorTerms[i], false, at)...)
		}
	}
	out = append(out, deprecatedSources(&p.Spec.PersistentVolumeSource)...)
	if p.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimRecycle {
		out = append(out,
			"spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended "+
				"approach is to use dynamic provisioning.")
	}
	return out
}

// betaClass warns of the annotation that named a storage class once.
func betaClass(a map[string]string) []string {
	if _, ok := a[v1.BetaStorageClassAnnotation]; !ok {
		return nil
	}
	return []string{
		fmt.Sprintf("metadata.annotations[%s]: deprecated since v1.8; use \"storageClassName\" attribute instead",
			v1.BetaStorageClassAnnotation)}
}

// deprecatedSources tells of sources that are gone or going.
func deprecatedSources(s *v1.PersistentVolumeSource) []string {
	var out []string
	for _, old := range []struct {
		set         bool
		child, text string
	}{
		{s.CephFS != nil, "cephfs", "deprecated in v1.28, non-functional in v1.31+"},
		{s.PhotonPersistentDisk != nil, "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"},
		{s.ScaleIO != nil, "scaleIO", "deprecated in v1.16, non-functional in v1.22+"},
		{s.StorageOS != nil, "storageOS", "deprecated in v1.22, non-functional in v1.25+"},
		{s.Glusterfs != nil, "glusterfs", "deprecated in v1.25, non-functional in v1.26+"},
		{s.RBD != nil, "rbd", "deprecated in v1.28, non-functional in v1.31+"},
	} {
		if old.set {
			out = append(out, field.NewPath("spec").Child(old.child).String()+": "+old.text)
		}
	}
	return out
}
