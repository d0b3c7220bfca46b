package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	jobutil "github.com/gantry-project/gantry/internal/job"
	podutil "github.com/gantry-project/gantry/internal/pod"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fixture is a Job and its Pods, driven by plans alone.
type fixture struct {
	job  *batchv1.Job
	pods []*corev1.Pod
	now  time.Time
	last time.Time
	born int
}

func newFixture(edit func(*batchv1.JobSpec)) *fixture {
	one, six := int32(1), int32(6)
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"},
		Spec: batchv1.JobSpec{Parallelism: &one, Completions: &one, BackoffLimit: &six}}
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if edit != nil {
		edit(&j.Spec)
	}
	return &fixture{job: j, now: t0}
}

func num(n int32) *int32 { return &n }

// sync plans once and carries the plan out.
func (w *fixture) sync() Plan {
	p := Next(In{Job: w.job, Pods: w.pods, ExpectationsMet: true, Failed: w.last, Now: w.now})
	w.job.Status, w.last = p.Status, p.Failed
	for _, x := range p.Release {
		x.Finalizers = nil
	}
	for _, b := range p.Create {
		w.born++
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", w.born),
			UID: types.UID(fmt.Sprint("u", w.born)), CreationTimestamp: metav1.NewTime(w.now),
			Finalizers: []string{batchv1.JobTrackingFinalizer}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		if b.Index >= 0 {
			pod.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: fmt.Sprint(b.Index),
				batchv1.JobIndexFailureCountAnnotation: fmt.Sprint(b.Failures)}
		}
		w.pods = append(w.pods, pod)
	}
	for _, x := range p.Delete {
		deleted := metav1.NewTime(w.now)
		x.DeletionTimestamp = &deleted
	}
	return p
}

// settle syncs until nothing changes any more; terminating Pods end.
func (w *fixture) settle() {
	for range 20 {
		before := fmt.Sprint(w.state(), w.job.Status.UncountedTerminatedPods)
		w.sync()
		for _, p := range w.pods {
			if p.DeletionTimestamp != nil && !podutil.IsTerminal(p) {
				p.Status.Phase = corev1.PodFailed
			}
		}
		w.pods = slices.DeleteFunc(w.pods,
			func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil && len(p.Finalizers) == 0 })
		if fmt.Sprint(w.state(), w.job.Status.UncountedTerminatedPods) == before {
			return
		}
	}
}

func (w *fixture) state() string {
	s := w.job.Status
	var cs []string
	for _, c := range s.Conditions {
		cs = append(cs, fmt.Sprintf("%s=%s(%s)", c.Type, c.Status, c.Reason))
	}
	live := 0
	for _, p := range w.pods {
		if podutil.IsActive(p) {
			live++
		}
	}
	return fmt.Sprintf("live %d succeeded %d failed %d %s", live, s.Succeeded, s.Failed, strings.Join(cs, " "))
}

func (w *fixture) end(name string, code int32) {
	for _, p := range w.pods {
		if p.Name == name {
			p.Status.Phase = corev1.PodSucceeded
			if code != 0 {
				p.Status.Phase = corev1.PodFailed
			}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{
				{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code,
					FinishedAt: metav1.NewTime(w.now)}}}}
		}
	}
	w.settle()
}

func (w *fixture) want(t *testing.T, state string) {
	t.Helper()
	if diff := cmp.Diff(state, w.state()); diff != "" {
		t.Fatalf("the two differ (-want +got):\n%s", diff)
	}
}

// row: CTL-08
func TestThreeCompletionsTwoAtATime(t *testing.T) {
	w := newFixture(func(s *batchv1.JobSpec) { s.Completions, s.Parallelism = num(3), num(2) })
	w.settle()
	w.want(t, "live 2 succeeded 0 failed 0 ")
	w.end("p1", 0)
	w.want(t, "live 2 succeeded 1 failed 0 ")
	w.end("p2", 0)
	w.want(t, "live 1 succeeded 2 failed 0 ")
	w.end("p3", 0)
	w.want(t, "live 0 succeeded 3 failed 0 SuccessCriteriaMet=True(CompletionsReached) "+
		"Complete=True(CompletionsReached)")
	if w.job.Status.CompletionTime == nil {
		t.Fatal("no completion time")
	}
}

// A Job of no completions ends at once; a status that says so needs the time of its start.
//
// row: CTL-08
func TestNoCompletions(t *testing.T) {
	w := newFixture(func(s *batchv1.JobSpec) { s.Completions = num(0) })
	w.settle()
	w.want(t, "live 0 succeeded 0 failed 0 SuccessCriteriaMet=True(CompletionsReached) "+
		"Complete=True(CompletionsReached)")
	if at := w.job.Status.StartTime; at == nil || !at.Time.Equal(t0) {
		t.Errorf("start time %v, want %s", at, t0)
	}
}

// A suspended Job has not started, though it has nothing to complete.
func TestASuspendedJobWithoutCompletionsHasNotStarted(t *testing.T) {
	w := newFixture(func(s *batchv1.JobSpec) { s.Completions, s.Suspend = num(0), new(true) })
	w.settle()
	if at := w.job.Status.StartTime; at != nil {
		t.Errorf("got start time %v, want none", at)
	}
}

// row: CTL-08
func TestFailuresBackOffAndEnd(t *testing.T) {
	w := newFixture(func(s *batchv1.JobSpec) { s.BackoffLimit = num(1) })
	w.settle()
	w.end("p1", 1)
	w.want(t, "live 0 succeeded 0 failed 1 ")
	if p := w.sync(); p.RequeueAfter != 10*time.Second || len(p.Create) != 0 {
		t.Fatalf("want a pause of 10s, have %+v", p)
	}
	w.now = w.now.Add(10 * time.Second)
	w.settle()
	w.want(t, "live 1 succeeded 0 failed 1 ")
	w.end("p2", 1)
	w.want(t, "live 0 succeeded 0 failed 2 FailureTarget=True(BackoffLimitExceeded) Failed=True(BackoffLimitExceeded)")
}

// A Pod that a client deletes counts as failed at once, and its replacement waits for the backoff
// from then on, although the Pod itself is gone.
//
// row: CTL-02, CTL-08
func TestDeletedPodIsReplacedAfterTheBackOff(t *testing.T) {
	w := newFixture(nil)
	w.settle()
	deleted := metav1.NewTime(w.now)
	w.pods[0].DeletionTimestamp = &deleted
	w.settle()
	if len(w.pods) != 0 {
		t.Fatal("the deleted Pod is held")
	}
	w.want(t, "live 0 succeeded 0 failed 1 ")
	w.now = w.now.Add(9 * time.Second)
	w.settle()
	w.want(t, "live 0 succeeded 0 failed 1 ")
	w.now = w.now.Add(time.Second)
	w.settle()
	w.want(t, "live 1 succeeded 0 failed 1 ")
}

// row: CTL-08
func TestDeadlineStopsWhatRuns(t *testing.T) {
	limit := int64(4)
	w := newFixture(func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = &limit })
	w.settle()
	if p := w.sync(); p.RequeueAfter != 4*time.Second {
		t.Fatalf("looks again after %s", p.RequeueAfter)
	}
	w.now = w.now.Add(4 * time.Second)
	w.settle()
	w.want(t, "live 0 succeeded 0 failed 1 FailureTarget=True(DeadlineExceeded) Failed=True(DeadlineExceeded)")
}

func TestSuspendAndResume(t *testing.T) {
	yes, no := true, false
	w := newFixture(func(s *batchv1.JobSpec) { s.Suspend = &yes })
	w.settle()
	w.want(t, "live 0 succeeded 0 failed 0 Suspended=True(JobSuspended)")
	w.job.Spec.Suspend = &no
	w.settle()
	w.want(t, "live 1 succeeded 0 failed 0 Suspended=False(JobResumed)")
	w.job.Spec.Suspend = &yes
	w.settle()
	w.want(t, "live 0 succeeded 0 failed 0 Suspended=True(JobSuspended)")
	if w.job.Status.StartTime != nil {
		t.Fatal("a suspended Job has a start time")
	}
}

// row: CTL-08
func TestIndexes(t *testing.T) {
	mode := batchv1.IndexedCompletion
	w := newFixture(func(s *batchv1.JobSpec) {
		s.CompletionMode, s.Completions, s.Parallelism, s.BackoffLimitPerIndex = &mode, num(3), num(3), num(0)
	})
	w.settle()
	w.end("p1", 0)
	w.end("p2", 1)
	w.end("p3", 0)
	w.want(t, "live 0 succeeded 2 failed 1 FailureTarget=True(FailedIndexes) Failed=True(FailedIndexes)")
	if w.job.Status.CompletedIndexes != "0,2" || *w.job.Status.FailedIndexes != "1" {
		t.Fatalf("got %q %q, want CompletedIndexes 0,2 and FailedIndexes 1", w.job.Status.CompletedIndexes,
			*w.job.Status.FailedIndexes)
	}
}

func TestSuccessPolicy(t *testing.T) {
	mode, leader := batchv1.IndexedCompletion, "0"
	w := newFixture(func(s *batchv1.JobSpec) {
		s.CompletionMode, s.Completions, s.Parallelism = &mode, num(2), num(2)
		s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: &leader}}}
	})
	w.settle()
	w.end("p1", 0)
	w.want(t, "live 0 succeeded 1 failed 0 SuccessCriteriaMet=True(SuccessPolicy) Complete=True(SuccessPolicy)")
}

// row: CTL-10, PDB-14
func TestFailurePolicy(t *testing.T) {
	policy := &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
		{Action: batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget,
				Status: corev1.ConditionTrue}}},
		{Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42}}},
	}}
	w := newFixture(func(s *batchv1.JobSpec) { s.PodFailurePolicy = policy })
	w.settle()
	w.pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
	w.end("p1", 137)
	w.want(t, "live 1 succeeded 0 failed 0 ")
	w.end("p2", 42)
	w.want(t, "live 0 succeeded 0 failed 1 FailureTarget=True(PodFailurePolicy) Failed=True(PodFailurePolicy)")
	if m := find(w.job.Status.Conditions, batchv1.JobFailed).Message; !strings.Contains(m,
		"exit code 42 matching FailJob rule at index 1") {
		t.Fatalf(`got %v, want m with "exit code 42 matching FailJob rule at index 1"`, m)
	}
}

func TestIndexesAreWrittenInRanges(t *testing.T) {
	for text, want := range map[string]string{"0,1,2,3,7": "0-3,7", "1,2": "1,2", "": "", "4-6,5": "4-6"} {
		if got := ParseIndexes(text, 10).String(); got != want {
			t.Errorf("%q: want %q, have %q", text, want, got)
		}
	}
}

// Whatever the order of ends, every end counts exactly once and the Job reaches exactly its
// completions.
//
// row: CTL-08
func TestEveryEndCountsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int32Range(1, 8).Draw(t, "completions")
		w := newFixture(func(s *batchv1.JobSpec) {
			s.Completions, s.Parallelism, s.BackoffLimit = &n, num(rapid.Int32Range(1, 4).Draw(t, "parallelism")),
				num(1000)
		})
		failures := int32(0)
		for step := 0; !jobutil.IsFinished(w.job); step++ {
			if step > 400 {
				t.Fatalf("no end: %s", w.state())
			}
			w.now = w.now.Add(20 * time.Minute)
			w.sync()
			for _, p := range w.pods {
				if !podutil.IsActive(p) {
					continue
				}
				switch rapid.IntRange(0, 3).Draw(t, "fate") {
				case 0:
					p.Status.Phase = corev1.PodSucceeded
				case 1:
					p.Status.Phase = corev1.PodFailed
					failures++
				}
			}
			if rapid.Bool().Draw(t, "twice") {
				w.sync()
			}
		}
		if s := w.job.Status; s.Succeeded < n || s.Failed > failures || find(s.Conditions, batchv1.JobComplete) == nil {
			t.Fatalf("%s; %d Pods failed", w.state(), failures)
		}
	})
}

// A Pod's end is the first available of its containers' ends, its Ready condition, its deletion and
// its creation (upstream's order), so that a failure without container times still has its backoff.
func TestFinishTimeOfAPod(t *testing.T) {
	t0 := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(s int) metav1.Time { return metav1.NewTime(t0.Add(time.Duration(s) * time.Second)) }
	ended := func(name string, s int) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(s)}}}
	}
	untold := corev1.ContainerStatus{Name: "b",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}
	always, deletion, grace := corev1.ContainerRestartPolicyAlways, at(60), int64(30)
	unready := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: at(20)}}
	for name, c := range map[string]struct {
		status  corev1.PodStatus
		deleted bool
		want    int
	}{
		"by its last container": {
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{ended("a", 9), ended("b", 7)},
				Conditions: unready}, true, 9},
		"by its sidecar": {
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{ended("a", 9)},
				InitContainerStatuses: []corev1.ContainerStatus{ended("side", 12), ended("init", 50)}}, true, 12},
		"a container has no end time": {
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{ended("a", 9), untold}, Conditions: unready},
			true, 20},
		"by its condition": {corev1.PodStatus{Conditions: unready}, true, 20},
		"by its deletion":  {corev1.PodStatus{}, true, 30},
		"nothing tells but when it was made": {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{untold}},
			false, 1},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(1)}, Status: c.status,
			Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "init"},
				{Name: "side", RestartPolicy: &always}}}}
		if c.deleted {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &deletion, &grace
		}
		if got := podFinishTime(p); !got.Equal(at(c.want).Time) {
			t.Errorf("%s: %v, not %v", name, got, at(c.want))
		}
	}
}
