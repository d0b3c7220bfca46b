package job

import (
	"errors"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
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
