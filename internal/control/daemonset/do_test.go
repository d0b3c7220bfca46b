package daemonset

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/journal"
)

// A node that comes gets its Pod within seconds, though nothing else changes; so does one that
// comes to match the set. Each gets one.
//
// row: CTL-12
func TestANodeThatComesGetsItsPod(t *testing.T) {
	s := set("0", "1")
	s.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	s.Spec.Template.Labels = s.Spec.Selector.MatchLabels
	s.Spec.Template.Spec.NodeSelector = map[string]string{"daemons": "yes"}
	wanted := func(name string) *corev1.Node {
		n := node(name)
		n.Labels["daemons"] = "yes"
		return n
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		client := fake.NewClientset(s, wanted("first"), node("other"))
		var made atomic.Int64
		client.PrependReactor("create", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
			p := a.(ktesting.CreateAction).GetObject().(*corev1.Pod)
			p.Name = fmt.Sprint("ds-", made.Add(1)) // as the API does
			return false, nil, nil
		})
		shared := informers.NewSharedInformerFactory(client, 0)
		r := New(controllerruntime.ControllerContext{Client: client, Informers: shared,
			Recorder: record.NewFakeRecorder(99), Journal: journal.Discard{}})
		shared.Start(ctx.Done())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		expect := func(when string, want ...string) {
			t.Helper()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			var got []string
			for _, a := range client.Actions() {
				if c, ok := a.(ktesting.CreateAction); ok && a.GetResource().Resource == "pods" {
					got = append(got, TargetNode(c.GetObject().(*corev1.Pod)))
				}
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s: Pods for %q, want %q", when, got, want)
			}
		}
		expect("at first", "first")
		nodes := client.CoreV1().Nodes()
		if _, err := nodes.Create(ctx, wanted("later"), metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		expect("a node was added", "first", "later")
		if _, err := nodes.Update(ctx, wanted("other"), metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
		expect("a node has the label now", "first", "later", "other")
		cancel()
		<-done
		shared.Shutdown()
	})
}
