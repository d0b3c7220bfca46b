// Package workload reads what the kinds that make Pods have in common: Deployment, ReplicaSet,
// StatefulSet, DaemonSet, Job and CronJob.
//
// In: an object of any kind. Out: its template, numbers and counts as Fields, so that a rule about
// all of them has no switch over kinds. It is pure.
package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fields are those of one workload. A pointer is nil, a path empty and a count 0 where the kind
// has none.
type Fields struct {
	Template     *corev1.PodTemplateSpec
	TemplatePath string // "spec.template", or that of a CronJob

	Selector *metav1.LabelSelector // of a kind that users give one
	Scales   bool                  // the kind has spec.replicas
	Replicas int32                 // of a kind that scales; 1 where the spec says none

	MinReadySeconds      int32
	RevisionHistoryLimit *int32
	ObservedGeneration   *int64
	Ready, Available     int32 // Pods
}

// FieldsOf are o's; zero, with no Template, for what makes no Pods.
func FieldsOf(o any) Fields {
	const path = "spec.template"
	switch x := o.(type) {
	case *appsv1.Deployment:
		s, t := &x.Spec, &x.Status
		return Fields{Template: &s.Template, TemplatePath: path, Selector: s.Selector, Scales: true,
			Replicas: Replicas(s.Replicas), MinReadySeconds: s.MinReadySeconds,
			RevisionHistoryLimit: s.RevisionHistoryLimit, ObservedGeneration: &t.ObservedGeneration,
			Ready: t.ReadyReplicas, Available: t.AvailableReplicas}
	case *appsv1.StatefulSet:
		s, t := &x.Spec, &x.Status
		return Fields{Template: &s.Template, TemplatePath: path, Selector: s.Selector, Scales: true,
			Replicas: Replicas(s.Replicas), MinReadySeconds: s.MinReadySeconds,
			RevisionHistoryLimit: s.RevisionHistoryLimit, ObservedGeneration: &t.ObservedGeneration,
			Ready: t.ReadyReplicas, Available: t.AvailableReplicas}
	case *appsv1.ReplicaSet:
		s, t := &x.Spec, &x.Status
		return Fields{Template: &s.Template, TemplatePath: path, Selector: s.Selector, Scales: true,
			Replicas: Replicas(s.Replicas), MinReadySeconds: s.MinReadySeconds,
			ObservedGeneration: &t.ObservedGeneration, Ready: t.ReadyReplicas, Available: t.AvailableReplicas}
	case *appsv1.DaemonSet:
		s, t := &x.Spec, &x.Status
		return Fields{Template: &s.Template, TemplatePath: path, Selector: s.Selector,
			MinReadySeconds: s.MinReadySeconds, RevisionHistoryLimit: s.RevisionHistoryLimit,
			ObservedGeneration: &t.ObservedGeneration, Ready: t.NumberReady, Available: t.NumberAvailable}
	case *batchv1.Job:
		return Fields{Template: &x.Spec.Template, TemplatePath: path}
	case *batchv1.CronJob:
		return Fields{Template: &x.Spec.JobTemplate.Spec.Template, TemplatePath: "spec.jobTemplate.spec.template"}
	}
	return Fields{}
}

// Template is the template of o's Pods; nil for what makes no Pods.
func Template(o any) *corev1.PodTemplateSpec { return FieldsOf(o).Template }

// Replicas is a number of replicas; 1, the default of the API, where none is written.
func Replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}
