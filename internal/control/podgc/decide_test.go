package podgc

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestNodeMustBeMissingForAWhile(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "gone"}}
	in := In{Pods: []*corev1.Pod{p}, Now: t0}
	got, missing := Next(in)
	if len(got) != 0 || !missing["gone"].Equal(t0) {
		t.Fatal(got, missing)
	}
	in.Missing, in.Now = missing, t0.Add(quarantine)
	if got, _ = Next(in); len(got) != 1 || got[0].Reason != "DeletionByPodGC" || !got[0].Fail {
		t.Fatal(got)
	}
	in.Nodes = map[string]*corev1.Node{"gone": {}}
	if got, missing = Next(in); len(got) != 0 || len(missing) != 0 {
		t.Fatal("the node is back", got, missing)
	}
}

func TestUnplacedAndEndingGoes(t *testing.T) {
	now := metav1.NewTime(t0)
	if got, _ := Next(In{Pods: []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}}, Now: t0}); len(got) != 1 || got[0].Fail {
		t.Fatal(got)
	}
}

func TestOldestEndedGoBeyondTheThreshold(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 5 {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), CreationTimestamp: metav1.NewTime(t0.Add(-time.Duration(i) * time.Hour))}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}})
	}
	got, _ := Next(In{Pods: pods, Keep: 3, Now: t0})
	if len(got) != 2 || got[0].Pod.Name != "4" || got[1].Pod.Name != "3" {
		t.Fatal(got)
	}
}
