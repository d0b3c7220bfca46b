package explain

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// What a controller recorded of a deletion is told with the number, the labels, the taint, the time
// and who makes the Pod anew; a Pod that its set did not make is told as adopted.
//
// row: RST-10
func TestADeletionIsReportedWithItsNumbers(t *testing.T) {
	for _, c := range []struct {
		name, pod, message string
		want, none         []string
	}{
		{"adopted", "debug", "web wants 2 Pods with app=web", []string{"ReplicaSet web wants 2 Pods", "app=web",
			"adopted"}, nil},
		{"its own", "web-x1z2y", "web wants 2 Pods with app=web", []string{"ReplicaSet web wants 2 Pods"},
			[]string{"adopted"}},
		{"a taint for a time", "cache", "taint a=b:NoExecute of node n1 is tolerated for 30 s (tolerationSeconds) " +
			"and no " +
			"longer; no controller makes the Pod anew", []string{"node n1", "30 s", "no controller makes the Pod " +
			"anew"}, nil},
		{"a taint", "cache", "taint a=b:NoExecute of node n1 is not tolerated", []string{"a=b:NoExecute", "n1"}, nil},
	} {
		in := In{Now: t0, Ref: journal.Ref{Namespace: "shop", Name: c.pod}, Entries: []journal.Entry{{At: t0,
			Fact: journal.Acted{Controller: "x", Action: "deletes the Pod", Message: c.message}}}}
		a := Why(in)
		for _, w := range c.want {
			if !strings.Contains(a.Cause, w) {
				t.Errorf("%s: got %q, want %q in it", c.name, a.Cause, w)
			}
		}
		for _, w := range c.none {
			if strings.Contains(a.Cause, w) {
				t.Errorf("%s: got %q, want no %q", c.name, a.Cause, w)
			}
		}
		if len(a.Findings) == 0 || a.Findings[0].Field == "" {
			t.Errorf("%s: got the findings %v, want one with a field", c.name, a.Findings)
		}
	}
}

// A probe that succeeds, and has to more often than it could: nothing is wrong, and it is said how
// long it takes. One that does not succeed is not told so.
func TestAProbeThatHasToSucceedOften(t *testing.T) {
	of := func(result string) Answer {
		in := base()
		in.Pod.Spec.NodeName = "n1"
		in.app().ReadinessProbe = &corev1.Probe{SuccessThreshold: 30, PeriodSeconds: 4, FailureThreshold: 3}
		s := in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{
			StartedAt: metav1.NewTime(in.Now.Add(-25 * time.Second))}})
		s.Ready = false
		in.Entries = append(in.Entries, journal.Entry{At: in.Now.Add(-20 * time.Second), Fact: journal.Probed{
			Container: "app", Probe: "readiness", Result: result, Count: 1, Threshold: 30, Message: "refused"}})
		return Why(in)
	}
	a := of("success")
	for _, w := range []string{"Nothing is wrong", "30 successes in a row (successThreshold)", "every 4s", "116s"} {
		if !strings.Contains(a.Cause, w) {
			t.Errorf("got %q, want %q in it", a.Cause, w)
		}
	}
	if a := of("failure"); strings.Contains(a.Cause, "Nothing is wrong") {
		t.Errorf("of a probe that fails: got %q", a.Cause)
	}
}

// A Pod that has finished is told as that, with the runs before; a deadline with who used it up.
func TestFinishedPodsAreReportedWhole(t *testing.T) {
	run := func(from, to int, code int32) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{StartedAt: at(time.Duration(from) * time.Second),
			FinishedAt: at(time.Duration(to) * time.Second), ExitCode: code, Reason: "Error"}
	}
	in := base()
	in.Pod.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "app", RestartCount: 1, State: corev1.ContainerState{Terminated: run(-5, -4, 0)},
		LastTerminationState: corev1.ContainerState{Terminated: run(-10, -9, 1)}}}}
	a := Why(in)
	if text := a.Cause + strings.Join(a.Facts, " "); !strings.Contains(text, "(Succeeded), and nothing is wrong") ||
		!strings.Contains(text, "restarted once before: the run before the last ended with exit code 1") {
		t.Errorf("got %q, want that it has finished, after one restart", text)
	}
	in = base()
	deadline, started := int64(40), at(-40*time.Second)
	in.Pod.Spec.ActiveDeadlineSeconds = &deadline
	in.Pod.Spec.InitContainers = []corev1.Container{{Name: "prepare"}}
	in.Pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded", Message: "too long",
		StartTime: &started, InitContainerStatuses: []corev1.ContainerStatus{{Name: "prepare",
			State: corev1.ContainerState{Terminated: run(-40, -10, 0)}}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{
			Terminated: run(-10, 0, 137)}}}}
	for _, w := range []string{"activeDeadlineSeconds of 40", "init container prepare used 30s of it",
		"container app ran for 10s"} {
		if a := Why(in); !strings.Contains(a.Cause, w) {
			t.Errorf("got %q, want %q in it", a.Cause, w)
		}
	}
}

// A CronJob that waits says when it starts next, also in its time zone; a node that a component's
// taint keeps from Pods says whose that is; a node without a resource says what it has of its kind.
func TestWhatIsNotDueAndWhatANodeHas(t *testing.T) {
	zone := "Pacific/Auckland"
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "x", CreationTimestamp: metav1.NewTime(t0)}
	a := WhyObject(Subject{Kind: "cronjob", Namespace: "shop", Name: "x", Now: t0, Object: &batchv1.CronJob{
		ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "0 0 1 1 *", TimeZone: &zone}}})
	for _, w := range []string{"which has not come", "12-31T11:00:00Z", "1 January 00:00 in time zone " +
		"Pacific/Auckland"} {
		if !strings.Contains(a.Cause, w) {
			t.Errorf("got %q, want %q in it", a.Cause, w)
		}
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{
		Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"hugepages-1Gi": resource.MustParse("2Gi")},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	a = WhyObject(Subject{Kind: "node", Name: "n1", Now: t0, Object: n})
	if !strings.Contains(a.Cause, "no cloud controller manager has initialized the node") ||
		strings.Contains(a.Cause, "nothing blocks it") || len(a.Fixes) == 0 {
		t.Errorf("got %q and the remedies %v, want the component that takes the taint off", a.Cause, a.Fixes)
	}
	for resource, want := range map[string]string{"hugepages-2Mi": "it has 2Gi of hugepages-1Gi", "cpu": "",
		"example.com/gpu": ""} {
		if got := alike(n, journal.Shortage{Resource: resource, Requested: 1}); want == "" && got != "" ||
			!strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", resource, got, want)
		}
	}
}
