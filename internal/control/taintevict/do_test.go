package taintevict

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/control/loop"
	"github.com/gantry-project/gantry/internal/journal"
)

// A Pod that was to leave later and may stay after all is told so, once; one that was not to leave is told nothing.
func TestCancelledEvictionIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		seconds := int64(300)
		added := metav1.Now()
		taint := corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: corev1.PodSpec{
			NodeName: "n", Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}},
		}}
		client, events := fake.NewClientset(node, p), record.NewFakeRecorder(9)
		shared := informers.NewSharedInformerFactory(client, 0)
		r := New(loop.Deps{Client: client, Informers: shared, Recorder: events, Journal: journal.Discard{}})
		shared.Start(ctx.Done())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		synctest.Wait()
		for _, taints := range [][]corev1.Taint{{taint}, nil, nil} {
			n := node.DeepCopy()
			n.Spec.Taints = taints
			if _, err := client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		cancel()
		<-done
		shared.Shutdown()
		close(events.Events)
		var told []string
		for e := range events.Events {
			told = append(told, e)
		}
		if len(told) != 1 || told[0] != "Normal TaintManagerEviction Cancelling deletion of Pod ns/p" {
			t.Errorf("told %v", told)
		}
	})
}
