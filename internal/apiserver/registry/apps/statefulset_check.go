package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
	"github.com/gantry-project/gantry/internal/apiserver/registry/template"
)

func checkStatefulSet(o, was *appsv1.StatefulSet) field.ErrorList {
	var f row.Findings
	s := &o.Spec
	checkStatefulStrategy(&f, s)
	if r, path := s.PersistentVolumeClaimRetentionPolicy, spec().Child("persistentVolumeClaimRetentionPolicy"); r != nil {
		const keep, remove = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		row.OneOf(&f, path.Child("whenDeleted"), r.WhenDeleted, keep, remove)
		row.OneOf(&f, path.Child("whenScaled"), r.WhenScaled, keep, remove)
	}
	f.NotNegative(spec().Child("replicas"), int64(row.Value(s.Replicas)))
	f.NotNegative(spec().Child("minReadySeconds"), int64(s.MinReadySeconds))
	if s.Ordinals != nil {
		f.NotNegative(spec().Child("ordinals", "start"), int64(s.Ordinals.Start))
	}
	if s.ServiceName != "" && (was == nil || was.Spec.ServiceName != s.ServiceName) {
		f.Label(spec().Child("serviceName"), s.ServiceName)
	}
	if was == nil || !apiequality.Semantic.DeepEqual(s.VolumeClaimTemplates, was.Spec.VolumeClaimTemplates) {
		for i := range s.VolumeClaimTemplates {
			f.Add(template.ValidateClaim(&s.VolumeClaimTemplates[i].Spec, spec().Child("volumeClaimTemplates").Index(i).Child("spec"))...)
		}
	}
	workload{s.Selector, withClaims(s), "statefulset", "StatefulSet", ""}.check(&f)
	if was != nil {
		w := &was.Spec
		f.Same(spec().Child("selector"), s.Selector, w.Selector)
		if !apiequality.Semantic.DeepEqual(s.VolumeClaimTemplates, w.VolumeClaimTemplates) {
			f.Invalid(spec().Child("volumeClaimTemplates"), row.Bare(s.VolumeClaimTemplates), apivalidation.FieldImmutableErrorMsg)
		}
		f.Same(spec().Child("serviceName"), s.ServiceName, w.ServiceName)
		f.Same(spec().Child("podManagementPolicy"), s.PodManagementPolicy, w.PodManagementPolicy)
	}
	return f.List()
}

// withClaims is the template as its Pods will be: first a volume for each claim template, in place of one of that name, then the others.
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
			Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}},
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

func checkStatefulStrategy(f *row.Findings, s *appsv1.StatefulSetSpec) {
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
			f.Invalid(rolling, row.Bare(r), "only allowed for updateStrategy 'RollingUpdate'")
		}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if r == nil {
			return
		}
		f.NotNegative(rolling.Child("partition"), int64(row.Value(r.Partition)))
		if n := r.MaxUnavailable; n != nil {
			f.IntOrPercent(rolling.Child("maxUnavailable"), *n)
			if row.Amount(n) == 0 {
				f.Invalid(rolling.Child("maxUnavailable"), *n, "cannot be 0")
			}
			f.AtMostAll(rolling.Child("maxUnavailable"), *n)
		}
	default:
		f.Invalid(path, row.Bare(s.UpdateStrategy), "must be 'RollingUpdate' or 'OnDelete'")
	}
}

func checkStatefulSetStatus(o, was *appsv1.StatefulSet) field.ErrorList {
	var f row.Findings
	s := &o.Status
	counts := replicaCounts{s.Replicas, []part{
		{"readyReplicas", s.ReadyReplicas}, {"currentReplicas", s.CurrentReplicas}, {"updatedReplicas", s.UpdatedReplicas}, {"availableReplicas", s.AvailableReplicas},
	}}
	counts.notNegative(&f)
	f.NotNegative(status().Child("observedGeneration"), s.ObservedGeneration)
	f.NotNegativeIf(status().Child("collisionCount"), s.CollisionCount)
	counts.atMostReplicas(&f)
	f.NotGreater(status().Child("availableReplicas"), s.AvailableReplicas, s.ReadyReplicas, "cannot be greater than status.readyReplicas")
	f.NotDecremented(status().Child("collisionCount"), s.CollisionCount, was.Status.CollisionCount)
	return f.List()
}
