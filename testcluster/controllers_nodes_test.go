package testcluster_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/test/wrappers"
)

// node makes a node that reports once, or never if ready is empty.
func (w *atWork) node(name string, ready corev1.ConditionStatus) {
	w.Helper()
	nodes := w.c.Client.CoreV1().Nodes()
	_, err := nodes.Create(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	w.must(err)
	if ready != "" {
		w.nodeReports(name, ready)
	}
}

func (w *atWork) nodeReports(name string, ready corev1.ConditionStatus) {
	w.Helper()
	now := metav1.Now()
	raw, err := json.Marshal(map[string]any{"status": corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: ready, Reason: "Test", LastHeartbeatTime: now, LastTransitionTime: now}}}})
	w.must(err)
	_, err = w.c.Client.CoreV1().Nodes().Patch(w.ctx, name, types.StrategicMergePatchType, raw, metav1.PatchOptions{},
		"status")
	w.must(err)
}

// silentNode: a node that does not report for the grace period is Unknown and tainted, its Pods are
// not ready; a Pod leaves when its tolerationSeconds end, by default after 300.
func silentNode(_ *testing.T, w *atWork) {
	w.node("silent", "")
	for _, name := range []string{"leaves", "stays"} {
		p := pod(name, "web")
		p.Spec.NodeName = "silent"
		p.Finalizers = []string{"example.com/looked-at"}
		if name == "leaves" {
			p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnreachable,
				Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
				TolerationSeconds: new(int64(1))}}
		}
		create(w.T, w.c, p)
		w.report(name, readyIs(corev1.ConditionTrue))
	}
	begin := time.Now()
	w.nodeReports("silent", corev1.ConditionTrue)
	var is *corev1.Node
	w.until("the node's Ready to be Unknown", func() bool {
		var err error
		is, err = w.c.Client.CoreV1().Nodes().Get(w.ctx, "silent", metav1.GetOptions{})
		w.must(err)
		return slices.ContainsFunc(is.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown && c.Reason == "NodeStatusUnknown"
		})
	})
	if took := time.Since(begin); took < monitorGrace {
		w.Errorf("not ready after %s, want not before %s", took, monitorGrace)
	}
	w.until("the taints of a node that is unreachable", func() bool {
		n, err := w.c.Client.CoreV1().Nodes().Get(w.ctx, "silent", metav1.GetOptions{})
		w.must(err)
		var taints []string
		for _, t := range n.Spec.Taints {
			taints = append(taints, t.ToString())
		}
		return strings.Join(taints, " ") ==
			"node.kubernetes.io/unreachable:NoSchedule node.kubernetes.io/unreachable:NoExecute"
	})
	var left *corev1.Pod
	w.until("the eviction of a Pod whose tolerationSeconds ended", func() bool {
		left = w.get("leaves")
		return left.DeletionTimestamp != nil
	})
	if got := wrappers.PodCondition(left, corev1.DisruptionTarget); got.Status != corev1.ConditionTrue ||
		got.Reason != "DeletionByTaintManager" {
		w.Errorf("got %+v, want True, DeletionByTaintManager", got)
	}
	var stays *corev1.Pod
	w.until("the Pod that tolerates the taint for 300 s to be not ready", func() bool {
		stays = w.get("stays")
		return wrappers.PodCondition(stays, corev1.PodReady).Status == corev1.ConditionFalse
	})
	if stays.DeletionTimestamp != nil {
		w.Errorf("the Pod that tolerates the taint for 300 s is deleted at %v, want nil", stays.DeletionTimestamp)
	}
	w.until("the taints to go when it reports", func() bool {
		w.nodeReports("silent", corev1.ConditionTrue) // once is in time for the grace period only
		n, err := w.c.Client.CoreV1().Nodes().Get(w.ctx, "silent", metav1.GetOptions{})
		w.must(err)
		return len(n.Spec.Taints) == 0
	})
	w.must(w.c.Client.CoreV1().Nodes().Delete(w.ctx, "silent", metav1.DeleteOptions{}))
}

// outOfService: a terminating Pod of a node that is not ready is marked Failed and deleted when the
// node has the taint; on a node without the taint it stays.
func outOfService(_ *testing.T, w *atWork) {
	w.node("out", corev1.ConditionFalse)
	w.node("away", corev1.ConditionFalse)
	for _, name := range []string{"out", "away"} {
		p := pod("on-"+name, "web")
		p.Spec.NodeName = name
		p.Finalizers = []string{"example.com/looked-at"}
		create(w.T, w.c, p)
		w.report(p.Name, readyIs(corev1.ConditionFalse))
		w.must(w.c.Client.CoreV1().Pods("default").Delete(w.ctx, p.Name,
			metav1.DeleteOptions{GracePeriodSeconds: new(int64(60))}))
	}
	w.until("the taint", func() bool {
		n, err := w.c.Client.CoreV1().Nodes().Get(w.ctx, "out", metav1.GetOptions{})
		w.must(err)
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "node.kubernetes.io/out-of-service",
			Effect: corev1.TaintEffectNoExecute})
		_, err = w.c.Client.CoreV1().Nodes().Update(w.ctx, n, metav1.UpdateOptions{})
		return err == nil
	})
	n := 0
	w.until("the Pod's phase to be Failed and its grace period 0", func() bool {
		// the deletion of a node makes the controller look at all Pods at once
		name := fmt.Sprint("deleted-", n)
		n++
		w.node(name, corev1.ConditionTrue)
		w.must(w.c.Client.CoreV1().Nodes().Delete(w.ctx, name, metav1.DeleteOptions{}))
		p := w.get("on-out")
		return p.Status.Phase == corev1.PodFailed && *p.DeletionGracePeriodSeconds == 0
	})
	if got := wrappers.PodCondition(w.get("on-out"), corev1.DisruptionTarget).Reason; got != "DeletionByPodGC" {
		w.Errorf("got reason %q, want DeletionByPodGC", got)
	}
	if p := w.get("on-away"); p.Status.Phase != corev1.PodRunning || *p.DeletionGracePeriodSeconds != 60 {
		w.Errorf("without the taint: got %s, %d s, want Running, 60 s", p.Status.Phase, *p.DeletionGracePeriodSeconds)
	}
}
