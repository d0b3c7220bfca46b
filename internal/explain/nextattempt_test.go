package explain

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Of a Job the Pod that failed is explained while the next one starts; not when that one has
// trouble of its own, takes long, or is a ReplicaSet's.
//
// row: RST-10
func TestAFailedAttemptIsExplainedWhileTheNextStarts(t *testing.T) {
	yes := true
	for name, c := range map[string]struct {
		owner  string
		change func(*corev1.Pod)
		want   string
	}{
		"starts":         {"Job", nil, "failed"},
		"a ReplicaSet's": {"ReplicaSet", nil, "next"},
		"no image": {"Job", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: waiting("ErrImagePull", "")}}
		}, "next"},
		"being made": {"Job", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app",
				State: waiting("ContainerCreating", "")}}
		}, "failed"},
		"no node": {"Job", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
		}, "next"},
		"takes long": {"Job", func(p *corev1.Pod) { p.CreationTimestamp = at(-2 * time.Minute) }, "next"},
	} {
		pod := func(name string, age time.Duration, phase corev1.PodPhase) *corev1.Pod {
			p := base().Pod.DeepCopy()
			p.Name, p.CreationTimestamp, p.Status.Phase = name, at(-age), phase
			p.OwnerReferences = []metav1.OwnerReference{{Kind: c.owner, Name: "x", Controller: &yes}}
			return p
		}
		next := pod("next", time.Second, corev1.PodPending)
		if c.change != nil {
			c.change(next)
		}
		got := WorstPod([]*corev1.Pod{next, pod("failed", 3*time.Minute, corev1.PodFailed)}, t0)
		if got == nil || got.Name != c.want {
			t.Errorf("%s: got %v, want %s", name, got, c.want)
		}
	}
}
