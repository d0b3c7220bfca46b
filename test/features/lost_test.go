package features_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/testcluster"
)

// set makes a ReplicaSet of one Pod and returns that Pod once it has a node.
func (w *fixture) set(name string, p *v1.Pod) *v1.Pod {
	w.t.Helper()
	labels := map[string]string{"set": name}
	one := int32(1)
	_, err := w.Client.AppsV1().ReplicaSets("default").Create(w.ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.ReplicaSetSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: p.Spec}},
	}, metav1.CreateOptions{})
	expect.NoError(w.t, err)
	return w.other(name, "")
}

// other waits until the ReplicaSet has a Pod with a node that is not the one named.
func (w *fixture) other(set, than string) (found *v1.Pod) {
	w.t.Helper()
	w.until("a Pod of "+set, func() bool {
		list, err := w.Client.CoreV1().Pods("default").List(w.ctx, metav1.ListOptions{LabelSelector: "set=" + set})
		expect.NoError(w.t, err)
		for i := range list.Items {
			if p := &list.Items[i]; p.Name != than && p.Spec.NodeName != "" {
				found = p
				return true
			}
		}
		return false
	})
	return found
}

// row: TRM-16
func TestAnEndingPodIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	w := start(t)
	spec := scriptPod("", "trap '' TERM; while true; do sleep 0.05; done")
	spec.Spec.TerminationGracePeriodSeconds = ptr(int64(20))
	old := w.set("web", spec)
	w.wait(old.Name, running)
	w.delete(old.Name, metav1.DeleteOptions{})
	fresh := w.other("web", old.Name)
	w.wait(fresh.Name, running)
	if p := w.get(old.Name); p.DeletionTimestamp == nil || p.Status.Phase != v1.PodRunning {
		t.Errorf("the old Pod is %s, deleted %v", p.Status.Phase, p.DeletionTimestamp)
	}
	s, err := w.Client.AppsV1().ReplicaSets("default").Get(w.ctx, "web", metav1.GetOptions{})
	expect.NoError(w.t, err)
	if s.Status.Replicas != 1 {
		t.Errorf("%d Pods are counted", s.Status.Replicas)
	}
	w.delete(old.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr(int64(0))})
}

// A node goes before its Pod has started there, and its object is removed. Its Pods are given up
// when it has been missing for a while.
//
// row: PST-09, PST-10, CTL-19
func TestPodsOfANodeThatIsGone(t *testing.T) {
	t.Parallel()
	const quarantine = time.Second
	w := start(t, testcluster.WithNodes("a", "b"), testcluster.WithNodeQuarantine(quarantine))
	w.cordon("b", true)
	ran := w.set("ran", scriptPod("", ""))
	w.wait(ran.Name, running)
	w.KillNode("a")
	never := w.set("never", scriptPod("", "")) // bound to a node that never learns of it
	if ran.Spec.NodeName != "a" || never.Spec.NodeName != "a" {
		t.Fatalf("on %s and %s", ran.Spec.NodeName, never.Spec.NodeName)
	}
	states := w.record()
	w.cordon("b", false)
	expect.NoError(w.t, w.Client.CoreV1().Nodes().Delete(w.ctx, "a", metav1.DeleteOptions{}))
	startedAt := time.Now()
	for _, old := range []*v1.Pod{ran, never} {
		w.waitForDeletion(old.Name)
		fresh := w.other(old.Labels["set"], old.Name)
		if fresh.UID == old.UID || fresh.Spec.NodeName != "b" {
			t.Errorf("replaced by %s on %s", fresh.UID, fresh.Spec.NodeName)
		}
		w.wait(fresh.Name, running)
	}
	if took := time.Since(startedAt); took < quarantine {
		t.Errorf("given up after %s", took)
	}
	failed := map[string]bool{}
	for _, p := range states() {
		if p.Name == never.Name && (p.Status.Phase == v1.PodRunning || len(p.Status.ContainerStatuses) > 0) {
			t.Errorf("the Pod that never started is %s", p.Status.Phase)
		}
		if p.Status.Phase == v1.PodFailed {
			failed[p.Name] = true
			if c := condition(p, v1.DisruptionTarget); c.Reason != "DeletionByPodGC" || !strings.Contains(c.Message,
				"node") {
				t.Errorf("failed with %+v", c)
			}
		}
	}
	if !failed[ran.Name] || !failed[never.Name] {
		t.Errorf("set to Failed before they were deleted: %v", failed)
	}
}
