package registry

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A write of a Pod is remembered with the names of the fields it changed.
func TestChangedFields(t *testing.T) {
	previous := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}},
		Status: corev1.PodStatus{
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}},
	}
	now := previous.DeepCopy()
	now.ResourceVersion, now.Generation = "2", 5
	now.Labels["a"], now.Labels["n"] = "c", "1"
	now.Spec.NodeName, now.Spec.Containers[0].Image = "n1", "y"
	now.Status.Phase = corev1.PodRunning
	now.Status.Conditions[0].Status = corev1.ConditionTrue
	now.Status.Conditions[0].LastTransitionTime, now.Status.StartTime = metav1.Unix(7, 0), &metav1.Time{}
	want := []string{"metadata.labels[a]", "metadata.labels[n]", "spec.containers[c].image", "spec.nodeName",
		"status.phase", "status.conditions[Ready].status", "status.conditions[Ready].lastTransitionTime",
		"status.startTime"}
	if got := changedFields(previous, now); !slices.Equal(got, want) {
		t.Errorf("changed %q, want %q", got, want)
	}
	if got := changedFields(previous, previous.DeepCopy()); got != nil {
		t.Errorf("changed %q of the same, want nil", got)
	}
}

func BenchmarkChanged(b *testing.B) {
	previous := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}}
	now := previous.DeepCopy()
	now.Status.Phase = corev1.PodRunning
	for b.Loop() {
		changedFields(previous.DeepCopy(), now)
	}
}
