package nodelifecycle

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/journal"
)

// startController runs the controller over the objects until the end of the test; it is to be
// called within a synctest bubble.
func startController(t *testing.T, client kubernetes.Interface) (stop func()) {
	return startWithGrace(t, client, 0)
}

// startWithGrace is startController with a grace period; 0: the default.
func startWithGrace(t *testing.T, client kubernetes.Interface, grace time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	shared := informers.NewSharedInformerFactory(client, 0)
	r := New(controllerruntime.ControllerContext{Client: client, Informers: shared,
		Recorder: record.NewFakeRecorder(99), Journal: journal.Discard{}, NodeMonitorGracePeriod: grace})
	shared.Start(ctx.Done())
	done := make(chan struct{})
	go func() { r.Run(ctx); close(done) }()
	synctest.Wait()
	return func() { cancel(); <-done; shared.Shutdown() }
}

// A node whose kubelet renews its lease is Ready; a flap of five seconds is not seen. Fifty seconds
// after the last sign, and not before, the node is written: Ready is Unknown, the taints follow,
// and its Pods are not ready.
//
// row: CTL-15
// row: KSL-10
// row: CTL-16
func TestASilentNodeIsWrittenAtTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", CreationTimestamp: metav1.Now()},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady,
				Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now()}}}}
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leases, Name: "n"}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"},
			Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
		client := fake.NewClientset(node, lease, pod)
		defer startController(t, client)()
		is := func() string {
			t.Helper()
			synctest.Wait()
			n, err := client.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			p, err := client.CoreV1().Pods("ns").Get(ctx, "p", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprintf("%s %s, Pod %s", n.Status.Conditions[0].Status, n.Status.Conditions[0].Reason,
				p.Status.Conditions[0].Status)
			for _, taint := range n.Spec.Taints {
				text += ", " + taint.ToString()
			}
			return text
		}
		const well = "True KubeletReady, Pod True"
		for _, pause := range []time.Duration{10 * time.Second, 10 * time.Second, 15 * time.Second, 49 * time.Second} {
			time.Sleep(pause)
			if got := is(); got != well {
				t.Fatalf("%s after the last sign: %s, want %s", pause, got, well)
			}
			now := metav1.NowMicro()
			lease.Spec.RenewTime = &now
			if _, err := client.CoordinationV1().Leases(leases).Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		time.Sleep(50*time.Second - time.Millisecond)
		if got := is(); got != well {
			t.Errorf("just before the bound: %s, want %s", got, well)
		}
		time.Sleep(2 * time.Millisecond)
		const lost = "Unknown NodeStatusUnknown, Pod False, node.kubernetes.io/unreachable:NoSchedule"
		if got := is(); got != lost {
			t.Errorf("50 s after the last sign: %s, want %s", got, lost)
		}
		time.Sleep(2 * restartGracePeriod)
		if got, want := is(), lost+", node.kubernetes.io/unreachable:NoExecute"; got != want {
			t.Errorf("a moment later: %s, want %s", got, want)
		}
	})
}

// The bound is the grace period that is set, not the default one.
//
// row: KSL-10
// row: CTL-15
func TestTheGracePeriodMayBeSet(t *testing.T) {
	for _, grace := range []time.Duration{20 * time.Second, 2 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n",
				CreationTimestamp: metav1.Now()}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}}})
			defer startWithGrace(t, client, grace)()
			time.Sleep(grace - time.Second)
			for _, want := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionUnknown} {
				synctest.Wait()
				n, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if got := n.Status.Conditions[0].Status; got != want {
					t.Errorf("grace period %s: got Ready %s, want %s around its end", grace, got, want)
				}
				time.Sleep(2 * time.Second)
			}
		})
	}
}
