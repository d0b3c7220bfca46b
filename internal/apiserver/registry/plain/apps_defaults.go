package plain

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/apiserver/registry/template"
)

// orElse fills in a field that is not set.
func orElse[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}

// orText fills in a text that is empty.
func orText[T ~string](p *T, v T) {
	if *p == "" {
		*p = v
	}
}

func defaultDeployment(d *appsv1.Deployment) {
	s := &d.Spec
	template.DefaultPodTemplate(&s.Template)
	orElse(&s.Replicas, 1)
	orText(&s.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if s.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		orElse(&s.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		orElse(&s.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		orElse(&s.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
	orElse(&s.RevisionHistoryLimit, 10)
	orElse(&s.ProgressDeadlineSeconds, 600)
}

func defaultReplicaSet(r *appsv1.ReplicaSet) {
	template.DefaultPodTemplate(&r.Spec.Template)
	orElse(&r.Spec.Replicas, 1)
}

func defaultDaemonSet(d *appsv1.DaemonSet) {
	s := &d.Spec
	template.DefaultPodTemplate(&s.Template)
	orText(&s.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if s.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		orElse(&s.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		orElse(&s.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		orElse(&s.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	orElse(&s.RevisionHistoryLimit, 10)
}

func defaultStatefulSet(o *appsv1.StatefulSet) {
	s := &o.Spec
	template.DefaultPodTemplate(&s.Template)
	for i := range s.VolumeClaimTemplates {
		c := &s.VolumeClaimTemplates[i]
		template.DefaultClaimSpec(&c.Spec)
		orText(&c.Status.Phase, corev1.ClaimPending)
	}
	orText(&s.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	orText(&s.UpdateStrategy.Type, appsv1.RollingUpdateStatefulSetStrategyType)
	if s.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		orElse(&s.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
		orElse(&s.UpdateStrategy.RollingUpdate.Partition, 0)
	}
	orElse(&s.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	orText(&s.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	orText(&s.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	orElse(&s.Replicas, 1)
	orElse(&s.RevisionHistoryLimit, 10)
}
