package tainteviction

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/journal"
)

// A Pod whose pending eviction is cancelled stays, and gets one event; a Pod without pending
// eviction gets none.
//
// row: CTL-16
func TestCancelledEvictionIsAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		seconds := int64(300)
		added := metav1.Now()
		taint := corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: corev1.PodSpec{
			NodeName: "n",
			Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists,
				Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}},
		}}
		client, events := fake.NewClientset(node, p), record.NewFakeRecorder(9)
		shared := informers.NewSharedInformerFactory(client, 0)
		r := New(controllerruntime.ControllerContext{Client: client, Informers: shared, Recorder: events,
			Journal: journal.Discard{}})
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
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for _, a := range client.Actions() {
			if a.GetResource().Resource == "pods" && (a.GetVerb() == "delete" || a.GetVerb() == "patch") {
				t.Errorf("after the taint was taken away: got %s of the Pod, want it left alone", a.GetVerb())
			}
		}
		cancel()
		<-done
		shared.Shutdown()
		close(events.Events)
		var recorded []string
		for e := range events.Events {
			recorded = append(recorded, e)
		}
		if len(recorded) != 1 || recorded[0] != "Normal TaintManagerEviction Cancelling deletion of Pod ns/p" {
			t.Errorf("got %v", recorded)
		}
	})
}

// Each Pod that does not tolerate a NoExecute taint is marked as disrupted, True and with the
// reason, and then deleted with its own grace period; one that tolerates it for a time goes when
// that is over, and one that tolerates it for ever stays. None of them has ever started.
//
// row: FIL-11, CTL-16, CTL-17, PDB-13, PST-10
func TestAnEvictedPodIsMarkedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		seconds := int64(300)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		on := func(name, node string, tolerations ...corev1.Toleration) *corev1.Pod {
			meta := metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}
			return &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: node, Tolerations: tolerations}}
		}
		client := fake.NewSimpleClientset(node, on("a", "n"), on("b", "n", corev1.Toleration{Key: "other",
			Operator: corev1.TolerationOpExists}), on("c", "n", corev1.Toleration{Key: "k",
			Operator: corev1.TolerationOpExists, TolerationSeconds: &seconds}),
			on("d", "n", corev1.Toleration{Operator: corev1.TolerationOpExists}), on("e", "elsewhere"))
		shared := informers.NewSharedInformerFactory(client, 0)
		r := New(controllerruntime.ControllerContext{Client: client, Informers: shared,
			Recorder: record.NewFakeRecorder(99), Journal: journal.Discard{}})
		shared.Start(ctx.Done())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		synctest.Wait()
		writes := func() string {
			var out []string
			for _, a := range client.Actions() {
				switch a := a.(type) {
				case ktesting.PatchActionImpl:
					var is corev1.Pod
					if err := json.Unmarshal(a.Patch, &is); err != nil || len(is.Status.Conditions) != 1 ||
						a.Subresource != "status" || is.Status.Phase != "" {
						t.Errorf("the patch %s of %q, %v, want a condition of the status", a.Patch, a.Subresource, err)
						continue
					}
					cond := is.Status.Conditions[0]
					out = append(out, fmt.Sprintf("%s %s=%s %s of %s", a.Name, cond.Type, cond.Status, cond.Reason,
						is.UID))
				case ktesting.DeleteActionImpl:
					o := a.DeleteOptions
					if o.GracePeriodSeconds != nil || o.Preconditions == nil {
						t.Errorf("%s is deleted with %+v, want its own grace period and its UID", a.Name, o)
						continue
					}
					out = append(out, fmt.Sprintf("%s deleted, %s", a.Name, *o.Preconditions.UID))
				}
			}
			client.ClearActions()
			slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(a[:1], b[:1]) })
			return strings.Join(out, "; ")
		}
		evicted := func(name string) string {
			return strings.ReplaceAll("NAME DisruptionTarget=True DeletionByTaintManager of uid-NAME; NAME deleted, "+
				"uid-NAME", "NAME", name)
		}
		if got := writes(); got != "" {
			t.Errorf("without a taint: %s", got)
		}
		added, tainted := metav1.Now(), node.DeepCopy()
		tainted.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute,
			TimeAdded: &added}}
		if _, err := client.CoreV1().Nodes().Update(ctx, tainted, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		client.ClearActions()
		for _, step := range []struct {
			wait time.Duration
			want string
		}{{time.Second, evicted("a") + "; " + evicted("b")}, {298 * time.Second, ""}, {2 * time.Second, evicted("c")},
			{time.Hour, ""}} {
			time.Sleep(step.wait)
			synctest.Wait()
			if got := writes(); got != step.want {
				t.Errorf("%s later: got %q, want %q", step.wait, got, step.want)
			}
		}
		cancel()
		<-done
		shared.Shutdown()
	})
}

// The seconds of a taint without timeAdded end, however often node and Pod are synced, and over a
// restart of the controllers if managedFields show when the taint was set.
//
// row: CTL-16
func TestTolerationSecondsEndWithoutTimeAdded(t *testing.T) {
	for name, restart := range map[string]bool{"one life": false, "a restart half way": true} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { undatedTaint(t, restart) }) })
	}
}

func undatedTaint(t *testing.T, restart bool) {
	ctx, sixty := t.Context(), int64(60)
	set := metav1.Now()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", ManagedFields: []metav1.ManagedFieldsEntry{{
		Manager: "kubectl-taint", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &set,
		FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:taints":{}}}`)},
	}}}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}}}}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: corev1.PodSpec{
		NodeName:    "n",
		Tolerations: []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists, TolerationSeconds: &sixty}},
	}}
	if !restart {
		node.ManagedFields = nil
	}
	client, counted := fake.NewSimpleClientset(node, p), deletionsNow(t)
	run := func() (stop func()) {
		ctx, cancel := context.WithCancel(ctx)
		shared := informers.NewSharedInformerFactory(client, 0)
		r := New(controllerruntime.ControllerContext{Client: client, Informers: shared,
			Recorder: record.NewFakeRecorder(99), Journal: journal.Discard{}})
		shared.Start(ctx.Done())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		synctest.Wait()
		return func() { cancel(); <-done; shared.Shutdown() }
	}
	stop := run()
	there := func() bool {
		_, err := client.CoreV1().Pods("ns").Get(ctx, "p", metav1.GetOptions{})
		return err == nil
	}
	for i := range 5 { // synced every ten seconds
		time.Sleep(10 * time.Second)
		n, err := client.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n.Spec.Taints = append(n.Spec.Taints[:1:1], corev1.Taint{Key: "other", Value: string(rune('a' + i)),
			Effect: corev1.TaintEffectPreferNoSchedule})
		if _, err := client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if i == 2 && restart {
			stop()
			stop = run()
		}
	}
	if !there() {
		t.Error("gone before its time")
	}
	time.Sleep(12 * time.Second)
	synctest.Wait()
	if there() {
		t.Error("62 s after the taint was set the Pod that tolerates it for 60 s is still there")
	}
	if got := deletionsNow(t) - counted; got != 1 {
		t.Errorf("taint_eviction_controller_pod_deletions_total grew by %v, want 1", got)
	}
	stop()
}

// deletionsNow is what the process has counted.
func deletionsNow(t *testing.T) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "taint_eviction_controller_pod_deletions_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("taint_eviction_controller_pod_deletions_total is not served")
	return 0
}
