package job

import (
	"errors"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
)

// Syncs, ends of Pods and of Jobs count under upstream's labels; of an Indexed Job its indexes.
func TestJobsAreCounted(t *testing.T) {
	value := func(v float64, err error) float64 {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	n, mode := int32(5), batchv1.IndexedCompletion
	plain := &batchv1.Job{Status: batchv1.JobStatus{Succeeded: 1, Failed: 2}}
	many := &batchv1.Job{Spec: batchv1.JobSpec{Completions: &n, CompletionMode: &mode},
		Status: batchv1.JobStatus{CompletedIndexes: "0", Succeeded: 4}}
	for name, c := range map[string]struct {
		job  *batchv1.Job
		plan Plan
		want string // Pods succeeded, failed; Jobs succeeded, failed
	}{
		"ends of Pods": {plain, Plan{Status: batchv1.JobStatus{Succeeded: 3, Failed: 3}}, "2 1 0 0"},
		"indexes":      {many, Plan{Status: batchv1.JobStatus{CompletedIndexes: "0,2-4", Succeeded: 4}}, "3 0 0 0"},
		"completes": {plain, Plan{Status: plain.Status, Finished: []batchv1.JobCondition{
			{Type: batchv1.JobComplete, Reason: "R"}}}, "0 0 1 0"},
		"fails": {plain, Plan{Status: plain.Status, Finished: []batchv1.JobCondition{
			{Type: batchv1.JobFailed, Reason: "R"}}}, "0 0 0 1"},
		"is suspended": {plain, Plan{Status: plain.Status, Finished: []batchv1.JobCondition{
			{Type: batchv1.JobSuspended, Reason: "R"}}}, "0 0 0 0"},
	} {
		now := func() (out [4]float64) {
			for i, result := range []string{succeeded, failed} {
				out[i] = value(testutil.GetCounterMetricValue(podsFinished.WithLabelValues(completionMode(c.job), result)))
				out[i+2] = value(testutil.GetCounterMetricValue(
					jobsFinished.WithLabelValues(completionMode(c.job), result, "R")))
			}
			return out
		}
		before := now()
		countEnds(c.job, &c.plan)
		after := now()
		got := fmt.Sprint(after[0]-before[0], after[1]-before[1], after[2]-before[2], after[3]-before[3])
		if got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	create, remove := Plan{Create: make([]PodToCreate, 1)}, Plan{Delete: []*corev1.Pod{{}}}
	for want, got := range map[string]string{"reconciling": syncAction(&create, false),
		"pods_created": syncAction(&create, true), "pods_deleted": syncAction(&remove, true),
		"tracking": syncAction(&Plan{}, true)} {
		if got != want {
			t.Errorf("got action %s, want %s", got, want)
		}
	}
	countSync(many, "tracking", time.Second, errors.New("no"))
	countSync(plain, "tracking", time.Second, nil)
	for _, labels := range [][]string{{"Indexed", "error", "tracking"}, {"NonIndexed", "success", "tracking"}} {
		if got := value(testutil.GetCounterMetricValue(syncs.WithLabelValues(labels...))); got < 1 {
			t.Errorf("got %v syncs of %q, want one", got, labels)
		}
	}
}

// Indexes count by how they ended and by whose limit; Pods by why they are made.
func TestIndexesAndCreationsAreCounted(t *testing.T) {
	value := func(c metrics.CounterMetric) float64 {
		t.Helper()
		v, err := testutil.GetCounterMetricValue(c)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	n, mode, per := int32(5), batchv1.IndexedCompletion, int32(1)
	job := &batchv1.Job{Spec: batchv1.JobSpec{Completions: &n, CompletionMode: &mode, BackoffLimitPerIndex: &per},
		Status: batchv1.JobStatus{CompletedIndexes: "0", FailedIndexes: new("1")}}
	plan := &Plan{Status: batchv1.JobStatus{CompletedIndexes: "0,3", FailedIndexes: new("1,2,4")}}
	wants := map[[2]string]float64{{succeeded, "perIndex"}: 1, {failed, "perIndex"}: 2, {succeeded, "global"}: 4,
		{failed, "global"}: 0}
	before := map[[2]string]float64{}
	for labels := range wants {
		before[labels] = value(indexesFinished.WithLabelValues(labels[:]...))
	}
	countIndexes(job, plan)
	global := job.DeepCopy()
	global.Spec.BackoffLimitPerIndex, global.Status.FailedIndexes = nil, nil
	countIndexes(global, &Plan{Status: batchv1.JobStatus{CompletedIndexes: "0-4"}})
	countIndexes(&batchv1.Job{}, plan)
	for labels, want := range wants {
		if got := value(indexesFinished.WithLabelValues(labels[:]...)) - before[labels]; got != want {
			t.Errorf("indexes of %v: got %v, want %v", labels, got, want)
		}
	}

	only := batchv1.Failed
	replacing := &batchv1.Job{Spec: batchv1.JobSpec{PodReplacementPolicy: &only}}
	bad := &Plan{Status: batchv1.JobStatus{Failed: 1}}
	uncounted := &Plan{Status: batchv1.JobStatus{UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{
		Failed: []types.UID{"a"}}}}
	for _, c := range []struct {
		job  *batchv1.Job
		plan *Plan
		want string
	}{
		{job, &Plan{}, "new"}, {replacing, &Plan{}, "new"}, {job, bad, "recreate_terminating_or_failed"},
		{replacing, bad, "recreate_failed"}, {job, uncounted, "recreate_terminating_or_failed"},
		{job, &Plan{Status: batchv1.JobStatus{Terminating: new(int32(1))}}, "recreate_terminating_or_failed"},
	} {
		if got := creationReason(c.job, c.plan); got != c.want {
			t.Errorf("got reason %s, want %s", got, c.want)
		}
	}
	countCreation("new", nil)
	countCreation("new", errors.New("no"))
	for _, result := range []string{succeeded, failed} {
		if got := value(podsCreated.WithLabelValues("new", result)); got < 1 {
			t.Errorf("creations that %s: got %v, want one", result, got)
		}
	}
}

// The end of a Pod with the finalizer counts once, and once that the finalizer, or the Pod, is
// gone.
func TestTrackedEndsAreCounted(t *testing.T) {
	pod := func(phase corev1.PodPhase, finalizers ...string) *corev1.Pod {
		p := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
		p.Finalizers = finalizers
		return p
	}
	const tracking = batchv1.JobTrackingFinalizer
	for _, c := range []struct {
		name     string
		was, is  *corev1.Pod
		add, del float64
	}{
		{"a start", nil, pod(corev1.PodRunning, tracking), 0, 0},
		{"an end", pod(corev1.PodRunning, tracking), pod(corev1.PodFailed, tracking), 1, 0},
		{"an end without it", pod(corev1.PodRunning), pod(corev1.PodFailed), 0, 0},
		{"one that had ended", nil, pod(corev1.PodSucceeded, tracking), 1, 0},
		{"no change", pod(corev1.PodFailed, tracking), pod(corev1.PodFailed, tracking), 0, 0},
		{"let go", pod(corev1.PodFailed, tracking), pod(corev1.PodFailed), 0, 1},
		{"deleted", pod(corev1.PodFailed, tracking), nil, 0, 1},
	} {
		now := func() (out [2]float64) {
			for i, event := range []string{"add", "delete"} {
				v, err := testutil.GetCounterMetricValue(endsTracked.WithLabelValues(event))
				if err != nil {
					t.Fatal(err)
				}
				out[i] = v
			}
			return out
		}
		before := now()
		countTracked(c.was, c.is)
		after := now()
		if add, del := after[0]-before[0], after[1]-before[1]; add != c.add || del != c.del {
			t.Errorf("%s: got %v added and %v deleted, want %v and %v", c.name, add, del, c.add, c.del)
		}
	}
}
