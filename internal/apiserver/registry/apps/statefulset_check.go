package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func checkStatefulSet(o, previous *appsv1.StatefulSet) field.ErrorList {
	var f typed.Errors
	s := &o.Spec
	checkStatefulStrategy(&f, s)
	if r, path := s.PersistentVolumeClaimRetentionPolicy, spec().Child("persistentVolumeClaimRetentionPolicy"); r !=
		nil {
		const keep, remove = appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		typed.Supported(&f, path.Child("whenDeleted"), r.WhenDeleted, keep, remove)
		typed.Supported(&f, path.Child("whenScaled"), r.WhenScaled, keep, remove)
	}
	f.NotNegative(spec().Child("replicas"), int64(typed.Deref(s.Replicas)))
	f.NotNegative(spec().Child("minReadySeconds"), int64(s.MinReadySeconds))
	if s.Ordinals != nil {
		f.NotNegative(spec().Child("ordinals", "start"), int64(s.Ordinals.Start))
	}
	if s.ServiceName != "" && (previous == nil || previous.Spec.ServiceName != s.ServiceName) {
		f.DNSLabel(spec().Child("serviceName"), s.ServiceName)
	}
	if previous == nil {
		for i := range s.VolumeClaimTemplates {
			f.Add(podspec.ValidateClaim(&s.VolumeClaimTemplates[i].Spec,
				spec().Child("volumeClaimTemplates").Index(i).Child("spec"))...)
		}
	}
	workloadRules{s.Selector, withClaims(s), "statefulset", "StatefulSet", ""}.check(&f)
	if previous != nil {
		w := &previous.Spec
		f.Immutable(spec().Child("selector"), s.Selector, w.Selector)
		if !apiequality.Semantic.DeepEqual(s.VolumeClaimTemplates, w.VolumeClaimTemplates) {
			f.Invalid(spec().Child("volumeClaimTemplates"), typed.GoFields(s.VolumeClaimTemplates),
				apivalidation.FieldImmutableErrorMsg)
		}
		f.Immutable(spec().Child("serviceName"), s.ServiceName, w.ServiceName)
		f.Immutable(spec().Child("podManagementPolicy"), s.PodManagementPolicy, w.PodManagementPolicy)
	}
	return f.List()
}

// withClaims is the template as its Pods will be: first a volume for each claim template, in place
// of one of that name, then the others.
func withClaims(s *appsv1.StatefulSetSpec) *corev1.PodTemplateSpec {
	t := s.Template.DeepCopy()
	claimed := map[string]bool{}
	var volumes []corev1.Volume
	for i := range s.VolumeClaimTemplates {
		name := s.VolumeClaimTemplates[i].Name
		if claimed[name] {
			continue
		}
		claimed[name] = true
		volumes = append(volumes, corev1.Volume{
			Name: name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}},
		})
	}
	for _, v := range t.Spec.Volumes {
		if !claimed[v.Name] {
			volumes = append(volumes, v)
		}
	}
	t.Spec.Volumes = volumes
	return t
}

func checkStatefulStrategy(f *typed.Errors, s *appsv1.StatefulSetSpec) {
	switch path := spec().Child("podManagementPolicy"); s.PodManagementPolicy {
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	case "":
		f.Required(path, "")
	default:
		f.Invalid(path, s.PodManagementPolicy, "must be 'OrderedReady' or 'Parallel'")
	}
	path, r := spec().Child("updateStrategy"), s.UpdateStrategy.RollingUpdate
	rolling := path.Child("rollingUpdate")
	switch s.UpdateStrategy.Type {
	case "":
		f.Required(path, "")
	case appsv1.OnDeleteStatefulSetStrategyType:
		if r != nil {
			f.Invalid(rolling, typed.GoFields(r), "only allowed for updateStrategy 'RollingUpdate'")
		}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if r == nil {
			return
		}
		f.NotNegative(rolling.Child("partition"), int64(typed.Deref(r.Partition)))
		if n := r.MaxUnavailable; n != nil {
			f.IntOrPercent(rolling.Child("maxUnavailable"), *n)
			if typed.IntOrPercentValue(n) == 0 {
				f.Invalid(rolling.Child("maxUnavailable"), *n, "cannot be 0")
			}
			f.NotMoreThan100Percent(rolling.Child("maxUnavailable"), *n)
		}
	default:
		f.Invalid(path, typed.GoFields(s.UpdateStrategy), "must be 'RollingUpdate' or 'OnDelete'")
	}
}

func checkStatefulSetStatus(o, previous *appsv1.StatefulSet) field.ErrorList {
	var f typed.Errors
	s := &o.Status
	counts := replicaCounts{s.Replicas, []part{
		{"readyReplicas", s.ReadyReplicas}, {"currentReplicas", s.CurrentReplicas},
		{"updatedReplicas", s.UpdatedReplicas}, {"availableReplicas", s.AvailableReplicas},
	}}
	counts.notNegative(&f)
	f.NotNegative(status().Child("observedGeneration"), s.ObservedGeneration)
	f.NotNegativeIf(status().Child("collisionCount"), s.CollisionCount)
	counts.atMostReplicas(&f)
	f.NotGreater(status().Child("availableReplicas"), s.AvailableReplicas, s.ReadyReplicas,
		"cannot be greater than status.readyReplicas")
	f.NotDecremented(status().Child("collisionCount"), s.CollisionCount, previous.Status.CollisionCount)
	return f.List()
}
