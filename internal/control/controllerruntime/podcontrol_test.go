package controllerruntime_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/journal"
)

// recordingSink records the journal's facts.
type recordingSink struct{ lines []string }

func (n *recordingSink) Put(r journal.Ref, f journal.Fact) {
	n.lines = append(n.lines, r.Name+": "+f.(journal.Acted).Action)
}

// A template that is refused is tried once, and two good batches come before the one that fails;
// nothing is expected any more that will not come.
func TestCreateInBatches(t *testing.T) {
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web", UID: "1"}}
	owner := controllerruntime.Owner{Object: set, Kind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet")}
	ending := apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("is being terminated"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for _, c := range []struct {
		name          string
		good          int64 // creations that succeed
		with          error // of the others
		tried, events int
		fails         bool
	}{
		{"all succeed", 100, nil, 20, 20, false},
		{"the first is refused", 0, errors.New("no"), 1, 1, true},
		{"the fourth is refused", 3, errors.New("no"), 7, 7, true},
		{"the namespace goes away", 0, ending, 1, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, recorder := fake.NewClientset(), record.NewFakeRecorder(100)
			var tries atomic.Int64
			client.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				n := tries.Add(1)
				if n <= c.good {
					return true, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", n)}}, nil
				}
				return true, nil, c.with
			})
			expect := controllerruntime.NewExpectations()
			expect.SetExpectations(owner.Key(), 20, nil, time.Now())
			h := controllerruntime.PodControl{ControllerContext: controllerruntime.ControllerContext{Client: client,
				Recorder: recorder, Journal: journal.Discard{}}, Expectations: expect, Controller: "test"}
			made, refused := 0, 0
			h.Tried = func(err error) {
				if err == nil {
					made++
				} else {
					refused++
				}
			}
			err := h.CreatePods(t.Context(), owner, 20,
				func(int) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n"}} })
			if (controllerruntime.IgnoreNamespaceTerminating(err) != nil) != c.fails ||
				(err == nil) != (c.with == nil) {
				t.Errorf("got error %v, want one: %t", err, c.with != nil)
			}
			if int(tries.Load()) != c.tried || len(recorder.Events) != c.events {
				t.Errorf("%d creations and %d events, want %d and %d", tries.Load(), len(recorder.Events), c.tried,
					c.events)
			}
			if want := min(int(c.good), c.tried); made != want || refused != c.tried-want {
				t.Errorf("was told of %d Pods made and %d refused, want %d and %d", made, refused, want, c.tried-want)
			}
			expect.CreationObserved(owner.Key(), int(min(c.good, 20))) // what the watch will deliver
			if !expect.SatisfiedExpectations(owner.Key(), time.Now()) {
				t.Error("Pods are expected that nobody will make")
			}
		})
	}
}

// A Pod that is gone needs no deletion; one that cannot be deleted is said and no longer expected
// to go. Each is deleted with its own grace period, and no other Pod of its name.
func TestDelete(t *testing.T) {
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web", UID: "1"}}
	owner := controllerruntime.Owner{Object: set, Kind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet")}
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: "u"}}
	}
	for _, c := range []struct {
		with        error
		event       string
		fails, left bool // left: the watch event is outstanding
	}{
		{nil, "SuccessfulDelete Deleted pod: a", false, true},
		{apierrors.NewNotFound(corev1.Resource("pods"), "a"), "", false, false},
		{errors.New("no"), "FailedDelete Error deleting: no", true, false},
	} {
		client, recorder := fake.NewClientset(), record.NewFakeRecorder(1)
		client.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			o := a.(clienttesting.DeleteActionImpl).DeleteOptions
			if o.GracePeriodSeconds != nil || o.Preconditions == nil || *o.Preconditions.UID != "u" {
				t.Errorf("deleted with %+v, want the grace period of the Pod and its uid", o)
			}
			return true, nil, c.with
		})
		expect, log := controllerruntime.NewExpectations(), &recordingSink{}
		expect.SetExpectations(owner.Key(), 0, []*corev1.Pod{pod("a")}, time.Now())
		h := controllerruntime.PodControl{ControllerContext: controllerruntime.ControllerContext{Client: client,
			Recorder: recorder, Journal: log}, Expectations: expect, Controller: "test"}
		err := h.DeletePods(t.Context(), owner, []*corev1.Pod{pod("a")}, "too many")
		message := ""
		if len(recorder.Events) > 0 {
			message = <-recorder.Events
		}
		if (err != nil) != c.fails || !strings.HasSuffix(message, c.event) || (message == "") != (c.event == "") ||
			expect.SatisfiedExpectations(owner.Key(), time.Now()) == c.left {
			t.Errorf("%v: err %v, event %q", c.with, err, message)
		}
		if got := strings.Join(log.lines, " "); (got == "a: deletes the Pod") != (c.with == nil) {
			t.Errorf("%v: journal %q", c.with, got)
		}
	}
}
