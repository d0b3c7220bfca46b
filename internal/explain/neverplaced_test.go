package explain

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// lateJob is a Job that its deadline ended, with the facts about its Pod.
func lateJob(facts ...journal.Fact) Subject {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "train", UID: "j"},
		Spec: batchv1.JobSpec{ActiveDeadlineSeconds: ptr.To(int64(20))},
		Status: batchv1.JobStatus{Failed: 1, Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed,
			Status: corev1.ConditionTrue, Reason: "DeadlineExceeded", Message: "Job was active longer than specified " +
				"deadline", LastTransitionTime: at(-time.Second)}}}}
	in := In{Now: t0, Ref: journal.Ref{Namespace: "shop", Name: "train-x"}}
	for _, f := range facts {
		in.fact(10*time.Second, "scheduler", f)
	}
	return Subject{Now: t0, Kind: "job", Namespace: "shop", Name: "train", Object: j, WorstPod: &in,
		Objects: &finding.Cluster{Now: t0, Objects: map[string][]metav1.Object{"Job": {j}}}}
}

// Of a Job whose deadline passed while its Pod had no node, that is the reason, and more time is
// not offered; of one whose Pod ran, it is.
//
// row: RST-10
func TestADeadlineThatPassedWithoutANode(t *testing.T) {
	refused := journal.Ruled{Message: "0/1 nodes are available: 1 Insufficient cpu."}
	for name, c := range map[string]struct {
		facts    []journal.Fact
		unplaced bool
	}{
		"no node":            {[]journal.Fact{refused}, true},
		"placed at last":     {[]journal.Fact{refused, journal.Bound{Node: "n1"}}, false},
		"placed at once":     {[]journal.Fact{journal.Ruled{Winner: "n1"}, journal.Bound{Node: "n1"}}, false},
		"nothing is known":   {nil, false},
		"never looked at it": {[]journal.Fact{journal.Queued{Queue: "active"}}, false},
	} {
		a := WhyObject(lateJob(c.facts...))
		all := text(t, a)
		if got := strings.Contains(a.Cause, "while its Pod train-x had no node and never ran"); got != c.unplaced {
			t.Errorf("%s: got %q, want that no node was found: %v", name, a.Cause, c.unplaced)
		}
		if got := strings.Contains(all, "activeDeadlineSeconds 200"); got == c.unplaced {
			t.Errorf("%s: got %s, want more time offered: %v", name, all, !c.unplaced)
		}
		if c.unplaced && !strings.Contains(a.Cause, "Insufficient cpu") {
			t.Errorf("%s: got %q, want the scheduler's words", name, a.Cause)
		}
	}
}

// A Job of which some Pods have a node and others find none can run as many at once as have one.
func TestAJobRunsFewerAtOnce(t *testing.T) {
	pod := func(node string) *corev1.Pod { return &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}} }
	ended := pod("n1")
	ended.Status.Phase = corev1.PodSucceeded
	for name, c := range map[string]struct {
		code        string
		parallelism *int32
		pods        []*corev1.Pod
		want        string
	}{
		"one of three": {"unscheduled", ptr.To(int32(3)), []*corev1.Pod{pod("n1"), pod(""), pod("")},
			`{"parallelism":1}`},
		"two of three": {"unscheduled", ptr.To(int32(3)), []*corev1.Pod{pod("n1"), pod("n2"), pod("")},
			`{"parallelism":2}`},
		"none has a node":       {"unscheduled", ptr.To(int32(3)), []*corev1.Pod{pod(""), pod("")}, ""},
		"the others have ended": {"unscheduled", ptr.To(int32(3)), []*corev1.Pod{ended, pod("")}, ""},
		"another trouble":       {"image", ptr.To(int32(3)), []*corev1.Pod{pod("n1"), pod("")}, ""},
		"none too many":         {"unscheduled", ptr.To(int32(1)), []*corev1.Pod{pod("n1"), pod("")}, ""},
	} {
		j := &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: c.parallelism}}
		got := Subject{Namespace: "shop", Name: "batch", Pods: c.pods}.fewerAtOnce(j, Answer{Code: c.code})
		if run := firstRun(Answer{Fixes: got}); (c.want == "") != (run == "") || !strings.Contains(run, c.want) {
			t.Errorf("%s: got %q, want %q", name, run, c.want)
		}
	}
}

// A scheduler that has placed nothing is told with those that have placed Pods, and the nearest
// name; one that has placed a Pod is only waited for.
func TestASchedulerOfAnotherName(t *testing.T) {
	placed := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n1", SchedulerName: "batch-scheduler"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled}}}}
	for name, want := range map[string]string{
		"default-schedular": "Perhaps default-scheduler was meant",
		"batch-schedule":    "Perhaps batch-scheduler was meant",
		"mine":              "those that have: default-scheduler and batch-scheduler",
		"batch-scheduler":   "",
		"default-scheduler": "",
	} {
		in := base()
		in.Pod.Spec.NodeName, in.Pod.Spec.SchedulerName = "", name
		in.ClusterContext = &ClusterContext{Pods: []*corev1.Pod{placed}}
		a := Why(in)
		if want == "" && strings.Contains(a.Cause, "None of that name") || !strings.Contains(a.Cause, want) {
			t.Errorf("%s: got %q, want %q", name, a.Cause, want)
		}
	}
}
