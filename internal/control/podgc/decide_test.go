package podgc

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// row: PST-09
// row: PST-10
// row: CTL-19
func TestNodeMustBeMissingForAWhile(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "gone"}}
	in := In{Pods: []*corev1.Pod{p}, Now: t0, Quarantine: QuarantineTime}
	got, missing := Next(in)
	if len(got) != 0 || !missing["gone"].Equal(t0) {
		t.Fatalf("got %v, %v, want no got and missing[gone] %v", got, missing, t0)
	}
	if got := wait(in, missing); got != gcCheckPeriod {
		t.Errorf("next look in %s", got)
	}
	in.Now = t0.Add(QuarantineTime - time.Second)
	if got := wait(in, missing); got != time.Second {
		t.Errorf("next look in %s", got)
	}
	in.Missing, in.Now = missing, t0.Add(QuarantineTime)
	if got, _ = Next(in); len(got) != 1 || got[0].Reason != "DeletionByPodGC" || !got[0].Fail {
		t.Fatalf("got %v, want 1 in got, Reason DeletionByPodGC and Fail true", got)
	}
	in.Nodes = map[string]*corev1.Node{"gone": {}}
	if got, missing = Next(in); len(got) != 0 || len(missing) != 0 {
		t.Fatal("the node is back", got, missing)
	}
}

// row: CTL-20
func TestUnplacedAndEndingGoes(t *testing.T) {
	now := metav1.NewTime(t0)
	if got, _ := Next(In{Pods: []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}}, Now: t0}); len(
		got) != 1 || got[0].Fail {
		t.Fatalf("got %v, want 1 in got and Fail false", got)
	}
}

// row: CTL-18
func TestOldestEndedGoBeyondTheThreshold(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 5 {
		pods = append(pods,
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i),
				CreationTimestamp: metav1.NewTime(t0.Add(-time.Duration(i) * time.Hour))},
				Status: corev1.PodStatus{Phase: corev1.PodSucceeded}})
	}
	if got, _ := Next(In{Pods: pods, TerminatedThreshold: 5, Now: t0}); len(got) != 0 {
		t.Errorf("as many as are kept: got %v, want nothing", got)
	}
	sixth := pods[4].DeepCopy() // as old as the oldest: the first by name
	sixth.Name, sixth.Status.Phase = "30", corev1.PodFailed
	if got, _ := Next(In{Pods: append(pods[:5:5], sixth), TerminatedThreshold: 5, Now: t0}); len(got) != 1 ||
		got[0].Pod.Name != "30" || got[0].Fail {
		t.Errorf("one more than are kept: got %v, want 30, not marked", got)
	}
	runs, goes := pods[4].DeepCopy(), pods[4].DeepCopy()
	runs.Name, runs.Status.Phase = "runs", corev1.PodRunning
	goes.Name, goes.DeletionTimestamp, goes.Spec.NodeName = "goes", &metav1.Time{Time: t0}, "n"
	if got, _ := Next(In{Pods: append(pods[:5:5], runs, goes), Nodes: map[string]*corev1.Node{"n": {}},
		TerminatedThreshold: 5, Now: t0}); len(got) != 0 {
		t.Errorf("beside one that runs and one that is being deleted: got %v, want nothing", got)
	}
	got, _ := Next(In{Pods: pods, TerminatedThreshold: 3, Now: t0})
	if len(got) != 2 || got[0].Pod.Name != "4" || got[1].Pod.Name != "3" {
		t.Fatalf("got %v, want 2 in got, Name 4 and Name 3", got)
	}
}

// A terminating Pod on a node that does not come back is deleted once the node has the
// out-of-service taint; not while the node is ready, nor without the taint.
//
// row: CTL-21
func TestEndingPodsOfANodeOutOfServiceGo(t *testing.T) {
	now := metav1.NewTime(t0)
	node := func(ready corev1.ConditionStatus, taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{Spec: corev1.NodeSpec{Taints: taints},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	out := corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}
	for _, c := range []struct {
		name   string
		node   *corev1.Node
		ending *metav1.Time
		goes   bool
	}{
		{"lost, tainted, ending", node(corev1.ConditionUnknown, out), &now, true},
		{"not ready, tainted, ending", node(corev1.ConditionFalse, out), &now, true},
		{"the second taint", node(corev1.ConditionUnknown, corev1.Taint{Key: "other"}, out), &now, true},
		{"another taint alone", node(corev1.ConditionUnknown, corev1.Taint{Key: "other"}), &now, false},
		{"never reported", &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{out}}}, &now, true},
		{"ready", node(corev1.ConditionTrue, out), &now, false},
		{"no taint", node(corev1.ConditionUnknown), &now, false},
		{"not ending", node(corev1.ConditionUnknown, out), nil, false},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", DeletionTimestamp: c.ending},
			Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		got, _ := Next(In{Pods: []*corev1.Pod{p}, Nodes: map[string]*corev1.Node{"n": c.node}, Now: t0})
		if (len(got) == 1) != c.goes {
			t.Errorf("%s: got %+v, want one Pod deleted: %t", c.name, got, c.goes)
		}
		if c.goes && len(got) == 1 &&
			(got[0].Reason != "DeletionByPodGC" || got[0].Message != "PodGC: node has the out-of-service taint" ||
				!got[0].Fail) {
			t.Errorf("%s: got %+v, want it to fail with DeletionByPodGC, PodGC: node has the out-of-service taint",
				c.name, got[0])
		}
	}
}
