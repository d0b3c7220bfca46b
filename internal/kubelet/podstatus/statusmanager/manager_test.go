package statusmanager_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus/statusmanager"
)

func start(t *testing.T) (*fake.Clientset, *statusmanager.Manager, *v1.Pod) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"},
		Status: v1.PodStatus{Phase: v1.PodPending}}
	api := fake.NewClientset(pod)
	w := statusmanager.New(api, journal.Discard{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return api, w, pod
}

func count(api *fake.Clientset, verb string) (n int) {
	for _, a := range api.Actions() {
		if a.GetVerb() == verb {
			n++
		}
	}
	return n
}

// row: PWK-25
func TestWritesOnceAndOnlyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, w, pod := start(t)
		w.SetPodStatus(pod, pod.Status)
		synctest.Wait()
		if n := count(api, "patch"); n != 0 {
			t.Fatalf("%d writes without a change", n)
		}
		w.SetPodStatus(pod, v1.PodStatus{Phase: v1.PodRunning})
		synctest.Wait()
		w.SetPodStatus(pod, v1.PodStatus{Phase: v1.PodRunning})
		synctest.Wait()
		if n := count(api, "patch"); n != 1 {
			t.Fatalf("%d writes, want 1", n)
		}
		a := api.Actions()[0].(clienttesting.PatchAction)
		var body struct {
			Metadata struct{ UID string }
			Status   map[string]any
		}
		if err := json.Unmarshal(a.GetPatch(), &body); err != nil {
			t.Fatal(err)
		}
		if a.GetSubresource() != "status" || body.Metadata.UID != "u" || body.Status["phase"] != "Running" {
			t.Errorf("got %s %s, want a.GetSubresource() status, UID u and Status[phase] Running", a.GetSubresource(),
				a.GetPatch())
		}
	})
}

// row: TRM-11
func TestFinishComesAfterTheLastStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, w, pod := start(t)
		w.SetPodStatus(pod, v1.PodStatus{Phase: v1.PodSucceeded})
		w.DeletePod(pod)
		synctest.Wait()
		acts := api.Actions()
		if len(acts) != 2 || acts[0].GetVerb() != "patch" || acts[1].GetVerb() != "delete" {
			t.Fatalf("got %v, want 2 in acts, acts[0].GetVerb() patch and acts[1].GetVerb() delete", acts)
		}
		o := acts[1].(clienttesting.DeleteAction).GetDeleteOptions()
		if *o.GracePeriodSeconds != 0 || string(*o.Preconditions.UID) != "u" {
			t.Errorf("got %+v, want GracePeriodSeconds 0 and *o.Preconditions.UID u", o)
		}
	})
}

// row: PWK-25
func TestFailedWritesAreRepeatedWithTheNewestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, w, pod := start(t)
		var broken atomic.Bool
		broken.Store(true)
		api.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return broken.Load(), nil, errors.New("no connection")
		})
		w.SetPodStatus(pod, v1.PodStatus{Phase: v1.PodRunning})
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := count(api, "patch"); n < 8 || n > 20 {
			t.Errorf("%d attempts in a minute", n)
		}
		w.SetPodStatus(pod, v1.PodStatus{Phase: v1.PodFailed})
		broken.Store(false)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		got, err := api.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
		if err != nil || got.Status.Phase != v1.PodFailed {
			t.Errorf("got %v %v, want no error and Phase PodFailed", got.Status.Phase, err)
		}
	})
}
