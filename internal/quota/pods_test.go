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
		t.Errorf("a Pod long to be gone uses: got %v, want one of them", u)
	}
	p.DeletionTimestamp.Time = now.Add(-time.Second)
	if u := podUsage(p, now); len(u) != 4 {
		t.Errorf("a stopping Pod uses: got %v, want 4 of them", u)
	}
	p.Status.Phase = corev1.PodSucceeded
	if u := podUsage(p, now); len(u) != 1 {
		t.Errorf("a finished Pod uses: got %v, want one of them", u)
	}
}

// A quota counts what the scheduler does: the larger of the app containers and the largest init
// container, with sidecars and overhead.
//
// row: ISE-15
func TestAPodUsesItsEffectiveRequestsAndLimits(t *testing.T) {
	sized := func(cpu, memory string, policy *corev1.ContainerRestartPolicy) corev1.Container {
		l := corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
		return corev1.Container{RestartPolicy: policy,
			Resources: corev1.ResourceRequirements{Requests: l, Limits: l}}
	}
	p := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{sized("1", "1Gi", nil), sized("3", "1Gi", nil),
			sized("500m", "2Gi", new(corev1.ContainerRestartPolicyAlways))},
		Containers: []corev1.Container{sized("1", "1Gi", nil), sized("1", "1Gi", nil)},
		Overhead:   corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("1Gi")},
	}}
	use := podUsage(p, time.Now())
	for name, want := range map[corev1.ResourceName]string{"cpu": "3250m", "requests.cpu": "3250m",
		"limits.cpu": "3250m", "memory": "5Gi", "requests.memory": "5Gi", "limits.memory": "5Gi", "pods": "1"} {
		if got := use[name]; got.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("%s: %s, want %s", name, &got, want)
		}
	}
}
