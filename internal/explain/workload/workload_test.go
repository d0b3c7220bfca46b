package workload_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/workload"
)

func TestFieldsOfKindsThatMakePods(t *testing.T) {
	job := batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: "n"}}}
	for _, c := range []struct {
		of       any
		path     string
		scales   bool
		replicas int32
	}{
		{&appsv1.Deployment{}, "spec.template", true, 1},
		{&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3))}}, "spec.template", true, 3},
		{&appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(0))}}, "spec.template", true, 0},
		{&appsv1.DaemonSet{}, "spec.template", false, 0},
		{&batchv1.Job{Spec: job}, "spec.template", false, 0},
		{&batchv1.CronJob{Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: job}}},
			"spec.jobTemplate.spec.template", false, 0},
		{&corev1.Pod{}, "", false, 0},
		{nil, "", false, 0},
	} {
		f := workload.FieldsOf(c.of)
		if f.TemplatePath != c.path || (f.Template != nil) != (c.path != "") || f.Scales != c.scales ||
			f.Replicas != c.replicas {
			t.Errorf("%T: got path %q, template %v, scales %v, %d replicas, want %q, %v, %d", c.of, f.TemplatePath,
				f.Template != nil, f.Scales, f.Replicas, c.path, c.scales, c.replicas)
		}
	}
}
