package statefulset

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/journal"
)

func succeeded(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }

// deletionsOf runs the controller over a set and its Pods for a second and returns how it deleted
// Pods, in order.
func deletionsOf(t *testing.T, s *appsv1.StatefulSet, pods ...*corev1.Pod) (out []ktesting.DeleteActionImpl) {
	t.Helper()
	client := fake.NewClientset(s)
	for _, p := range pods {
		p.Namespace, p.Labels["app"] = s.Namespace, "a"
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s, kind)}
		if err := client.Tracker().Add(p); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		shared := informers.NewSharedInformerFactory(client, 0)
		r := New(controllerruntime.ControllerContext{Client: client, Informers: shared,
			Recorder: record.NewFakeRecorder(99), Journal: journal.Discard{}})
		shared.Start(ctx.Done())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		time.Sleep(time.Second)
		synctest.Wait()
		cancel()
		<-done
		shared.Shutdown()
	})
	for _, a := range client.Actions() {
		if d, ok := a.(ktesting.DeleteActionImpl); ok && d.Resource.Resource == "pods" {
			out = append(out, d)
		}
	}
	return out
}

// A Pod that has to go is deleted with its own grace period, and no other Pod of its name: the name
// is free only when its node has seen it end.
//
// row: CTL-07
func TestPodsAreDeletedWithTheirOwnGrace(t *testing.T) {
	for _, c := range []struct {
		name     string
		replicas int32
		pods     []*corev1.Pod
		first    string
	}{
		{"surplus", 1, []*corev1.Pod{pod(0, "old"), pod(1, "old")}, "db-1"},
		{"of another template", 1, []*corev1.Pod{pod(0, "old")}, "db-0"},
		{"failed", 1, []*corev1.Pod{pod(0, "old", failed)}, "db-0"},
		{"succeeded", 1, []*corev1.Pod{pod(0, "old", succeeded)}, "db-0"},
	} {
		got := deletionsOf(t, set(c.replicas, func(s *appsv1.StatefulSet) {
			s.Spec.Template.Labels = map[string]string{"app": "a"}
		}), c.pods...)
		if len(got) == 0 || got[0].Name != c.first {
			t.Errorf("%s: deleted %v, want %s first", c.name, got, c.first)
		}
		for _, d := range got {
			o := d.DeleteOptions
			if o.GracePeriodSeconds != nil {
				t.Errorf("%s: %s is deleted with grace period %d, want its own", c.name, d.Name, *o.GracePeriodSeconds)
			}
			if o.Preconditions == nil || o.Preconditions.UID == nil || string(*o.Preconditions.UID) != d.Name+"u" {
				t.Errorf("%s: %s is deleted with preconditions %v, want its uid", c.name, d.Name, o.Preconditions)
			}
		}
	}
}
