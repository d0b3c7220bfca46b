package testcluster_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/testcluster"
)

// bindByHand posts a Binding as a user would, with kubectl create --raw, and returns the status
// code.
func bindByHand(t *testing.T, c *testcluster.Cluster, pod, more string) int {
	t.Helper()
	code := 0
	body := `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"` + pod +
		`"},"target":{"apiVersion":"v1","kind":"Node","name":"node-1"}` + more + `}`
	answer, err := c.Client.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name(pod).
		SubResource("binding").SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").
		Body([]byte(body)).Do(t.Context()).StatusCode(&code).Raw()
	if err != nil {
		t.Fatal(err)
	}
	if want := `"status":"Success","code":201}`; !strings.Contains(string(answer), want) {
		t.Errorf("the answer to the binding is %s, want it with %s", answer, want)
	}
	return code
}

// TestAPodIsBoundByHandWhenNobodySchedulesIt: its scheduler does not run.
// row: BND-03, BND-04, BND-05
func TestAPodIsBoundByHandWhenNobodySchedulesIt(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t)
	ctx := within(t, 3*time.Minute)
	p := pod("by-hand", "anything")
	p.Spec.SchedulerName = "nobody"
	create(t, c, p)
	before := c.WaitPod(ctx, "default", "by-hand", func(p *corev1.Pod) bool { return p != nil })
	seen, err := c.Client.CoreV1().Pods("default").Watch(ctx,
		metav1.ListOptions{ResourceVersion: before.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Stop()
	if code := bindByHand(t, c, "by-hand",
		`,"spec":{"containers":[{"name":"app","image":"evil","env":[{"name":"A","value":"b"}]}]}`); code != 201 {
		t.Errorf("the answer is %d", code)
	}
	e := <-seen.ResultChan()
	is, ok := e.Object.(*corev1.Pod)
	if !ok || e.Type != watch.Modified || is.Spec.NodeName != "node-1" {
		t.Fatalf("the watch said %s of %+v", e.Type, e.Object)
	}
	is.Spec.NodeName = ""
	if !reflect.DeepEqual(before.Spec, is.Spec) {
		t.Errorf("the binding changed more than the node's name: %+v", is.Spec)
	}
	c.WaitPod(within(t, time.Minute), "default", "by-hand", phase(corev1.PodRunning)) // the kubelet saw it
}

// row: BND-08
func TestAControllersPodIsBoundByHandAndStaysItsOwn(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t)
	ctx := within(t, 3*time.Minute)
	labels, one := map[string]string{"app": "web"}, int32(1)
	template := pod("", "anything").Spec
	template.SchedulerName = "nobody"
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.ReplicaSetSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: template}}}
	made, err := c.Client.AppsV1().ReplicaSets("default").Create(ctx, set, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	first := (<-w.ResultChan()).Object.(*corev1.Pod)
	bindByHand(t, c, first.Name, "")
	p := c.WaitPod(ctx, "default", first.Name, phase(corev1.PodRunning))
	if owner := metav1.GetControllerOf(p); owner == nil || owner.UID != made.UID {
		t.Errorf("owned by %+v", owner)
	}
	list, err := c.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil || len(list.Items) != 1 || list.Items[0].UID != first.UID {
		t.Errorf("%d Pods, %v", len(list.Items), err)
	}
}

// waitUntilNodeRefusesPods waits until the node takes no Pod that tolerates nothing. A scheduler
// that has not seen a change of the node yet may bind a Pod that it has seen: then another
// one is tried.
func waitUntilNodeRefusesPods(ctx context.Context, t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	n := 0
	expect.Eventually(t, "a Pod is kept out", func() bool {
		name := fmt.Sprint("late-", n)
		n++
		create(t, c, pod(name, "anything"))
		p := c.WaitPod(ctx, "default", name, func(p *corev1.Pod) bool {
			return p == nil || p.Spec.NodeName != "" || len(p.Status.Conditions) > 0 &&
				p.Status.Conditions[0].Reason == corev1.PodReasonUnschedulable
		})
		return p != nil && p.Spec.NodeName == ""
	})
}

// A cordon keeps Pods out and sends none away, though the node gets a taint.
//
// row: FIL-08
func TestACordonSendsNobodyAway(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t)
	ctx := within(t, 3*time.Minute)
	create(t, c, pod("stays", "anything"))
	c.WaitPod(ctx, "default", "stays", phase(corev1.PodRunning))
	if _, err := c.Client.CoreV1().Nodes().Patch(ctx, "node-1", types.StrategicMergePatchType,
		[]byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	cordoned := func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable }
	expect.EventuallyNoError(t, "the cordoned node gets its taint", func() error {
		n, err := c.Client.CoreV1().Nodes().Get(ctx, "node-1", metav1.GetOptions{})
		if err == nil && !slices.ContainsFunc(n.Spec.Taints, cordoned) {
			err = fmt.Errorf("got taints %v", n.Spec.Taints)
		}
		return err
	})
	// what a taint does to Pods that run is done by the time that a later taint has done it
	waitUntilNodeRefusesPods(ctx, t, c)
	tolerates := pod("tolerates", "anything")
	tolerates.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable,
		Operator: corev1.TolerationOpExists}}
	create(t, c, tolerates)
	c.WaitPod(ctx, "default", "tolerates", phase(corev1.PodRunning))
	p := c.WaitPod(ctx, "default", "stays", func(p *corev1.Pod) bool { return true })
	if p == nil || p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning {
		t.Errorf("the Pod on the cordoned node: got %+v, want it running", p)
	}
}

// row: FIL-11
func TestATaintThatExecutesKeepsPodsOutAndSendsThemAway(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t)
	ctx := within(t, 3*time.Minute)
	create(t, c, pod("runs", "anything"))
	stays := pod("stays", "anything")
	stays.Spec.Tolerations = []corev1.Toleration{{Key: "out", Operator: corev1.TolerationOpExists}}
	create(t, c, stays)
	c.WaitPod(ctx, "default", "runs", phase(corev1.PodRunning))
	c.WaitPod(ctx, "default", "stays", phase(corev1.PodRunning))
	patch := `{"spec":{"taints":[{"key":"out","value":"now","effect":"NoExecute"}]}}`
	if _, err := c.Client.CoreV1().Nodes().Patch(ctx, "node-1", types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.WaitPod(ctx, "default", "runs", isDeleted)
	waitUntilNodeRefusesPods(ctx, t, c)
	if p := c.WaitPod(ctx, "default", "stays", phase(corev1.PodRunning)); p.DeletionTimestamp != nil {
		t.Error("the Pod that tolerates the taint is sent away")
	}
}
