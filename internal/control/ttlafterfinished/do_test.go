package ttlafterfinished

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/journal"
)

// The controller writes nothing but the deletion of the Job whose time has come. Evicted Pods are
// left to the garbage collector: the Job's own, those of Jobs that run or have no limit, others.
//
// row: CTL-22
func TestEvictedPodsAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j", UID: "u"},
			Spec: batchv1.JobSpec{TTLSecondsAfterFinished: new(int32(60))},
			Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed,
				Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}}}
		evicted := func(name string, labels map[string]string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels},
				Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}}
		}
		of := func(name string) map[string]string {
			return map[string]string{"job-name": name, batchv1.JobNameLabel: name}
		}
		runs, kept := job.DeepCopy(), job.DeepCopy()
		runs.Name, runs.UID, runs.Status.Conditions = "runs", "v", nil
		kept.Name, kept.UID, kept.Spec.TTLSecondsAfterFinished = "kept", "w", nil
		client := fake.NewClientset(job, runs, kept, evicted("other", nil), evicted("own", of("j")),
			evicted("of-one-that-runs", of("runs")), evicted("of-one-that-stays", of("kept")))
		ctx, cancel := context.WithCancel(t.Context())
		shared := informers.NewSharedInformerFactory(client, 0)
		r := New(controllerruntime.ControllerContext{Client: client, Informers: shared,
			Recorder: record.NewFakeRecorder(9), Journal: journal.Discard{}})
		shared.Start(ctx.Done())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		written := func() []string {
			synctest.Wait()
			var out []string
			for _, a := range client.Actions() {
				if d, ok := a.(ktesting.DeleteAction); ok {
					out = append(out, fmt.Sprint(a.GetResource().Resource, " ", d.GetName()))
				} else if v := a.GetVerb(); v != "get" && v != "list" && v != "watch" {
					out = append(out, v+" "+a.GetResource().Resource)
				}
			}
			return out
		}
		time.Sleep(30 * time.Second)
		if got := written(); len(got) != 0 {
			t.Errorf("before the Job's time has come: got %q written, want nothing", got)
		}
		time.Sleep(time.Hour)
		if got, want := written(), []string{"jobs j"}; !slices.Equal(got, want) {
			t.Errorf("after it: got %q written, want %q", got, want)
		}
		cancel()
		<-done
		shared.Shutdown()
	})
}
