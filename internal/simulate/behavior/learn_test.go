package behavior

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Pod that became unready and ready again long after its start does not tell how long one takes.
func TestLearnLeavesOutPodsThatWereUnreadyAgain(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) metav1.Time { return metav1.NewTime(begin.Add(d)) }
	pod := func(owner string, ready time.Duration) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", OwnerReferences: []metav1.OwnerReference{
			{Kind: "StatefulSet", Name: owner, Controller: new(true)}}},
			Status: v1.PodStatus{Conditions: []v1.PodCondition{
				{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: at(0)},
				{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: at(ready)}},
				ContainerStatuses: []v1.ContainerStatus{{State: v1.ContainerState{
					Running: &v1.ContainerStateRunning{StartedAt: at(2 * time.Second)}}}}}}
	}
	got := Learn([]*v1.Pod{pod("db", 5*time.Second), pod("db", 48*time.Hour), pod("old", time.Hour)}, Assumed())
	db := got["a/StatefulSet/db"]
	if db.Samples != 1 || db.Ready != Fixed(3*time.Second) || db.Start != Fixed(2*time.Second) {
		t.Errorf("db: %+v, want one sample of 2 s and 3 s", db)
	}
	if _, learned := got["a/StatefulSet/old"]; learned {
		t.Errorf("old: %+v, want nothing", got["a/StatefulSet/old"])
	}
}
