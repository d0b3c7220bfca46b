package quota

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAPodThatIsOverUsesOnlyItsPlace(t *testing.T) {
	now := time.Now()
	p := &corev1.Pod{
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{
				{Name: "c", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}}}
	if n := len(podUsage(p, now)); n != 4 {
		t.Errorf("a living Pod uses %v", podUsage(p, now))
	}
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: now.Add(-time.Minute)}, new(int64(30))
	if u := podUsage(p, now); len(u) != 1 {
		t.Errorf("a Pod long to be gone uses %v", u)
	}
	p.DeletionTimestamp.Time = now.Add(-time.Second)
	if u := podUsage(p, now); len(u) != 4 {
		t.Errorf("a stopping Pod uses %v", u)
	}
	p.Status.Phase = corev1.PodSucceeded
	if u := podUsage(p, now); len(u) != 1 {
		t.Errorf("a finished Pod uses %v", u)
	}
}
