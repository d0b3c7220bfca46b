package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/test/wrappers"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// onePod is a Pod of words: a phase, "deleted", "ready", "untracked", "index=N", "failures=N",
// "ago=SECONDS" since it was made.
func onePod(t testing.TB, name, words string) *corev1.Pod {
	t.Helper()
	p := wrappers.MakePod().Name(name).UID(name).CreationTimestamp(metav1.NewTime(t0)).Obj()
	p.Annotations, p.Finalizers = map[string]string{}, []string{"other", batchv1.JobTrackingFinalizer}
	for _, w := range strings.Fields(words) {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "Running", "Pending", "Succeeded", "Failed":
			p.Status.Phase = corev1.PodPhase(key)
		case "deleted":
			p.DeletionTimestamp = new(metav1.NewTime(t0.Add(time.Minute)))
			p.DeletionGracePeriodSeconds = new(int64(30))
		case "ready":
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		case "untracked":
			p.Finalizers = p.Finalizers[:1]
		case "index":
			p.Annotations[batchv1.JobCompletionIndexAnnotation] = value
		case "failures":
			p.Annotations[batchv1.JobIndexFailureCountAnnotation] = value
		default:
			t.Fatalf("unknown word %s", w)
		}
	}
	return p
}

func names(pods []*corev1.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// planText is what a plan does and counts.
func planText(p Plan) string {
	s := p.Status
	var out []string
	add := func(name string, value any) {
		if text := fmt.Sprint(value); text != "" && text != "0" && text != "[]" {
			out = append(out, name+"="+text)
		}
	}
	add("active", s.Active)
	if s.Ready != nil {
		add("ready", *s.Ready)
	}
	if s.Terminating != nil {
		add("terminating", *s.Terminating)
	}
	add("succeeded", s.Succeeded)
	add("failed", s.Failed)
	add("indexes", s.CompletedIndexes)
	if s.FailedIndexes != nil {
		add("failedIndexes", *s.FailedIndexes)
	}
	if u := s.UncountedTerminatedPods; u != nil {
		add("uncountedOK", u.Succeeded)
		add("uncountedBad", u.Failed)
	}
	add("release", names(p.Release))
	add("delete", names(p.Delete))
	add("create", len(p.Create))
	return strings.Join(out, " ")
}

// How each kind of Pod counts in one sync, by what its Job says.
//
// row: CTL-08, CTL-10
func TestHowAPodCounts(t *testing.T) {
	type edit = func(*batchv1.Job)
	indexed := func(n int32) edit {
		return func(j *batchv1.Job) {
			j.Spec.CompletionMode, j.Spec.Completions = new(batchv1.IndexedCompletion), &n
		}
	}
	limit := func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = num(1) }
	replaceFailed := func(j *batchv1.Job) { j.Spec.PodReplacementPolicy = new(batchv1.Failed) }
	replaceAll := func(j *batchv1.Job) { j.Spec.PodReplacementPolicy = new(batchv1.TerminatingOrFailed) }
	policy := func(action batchv1.PodFailurePolicyAction) edit {
		return func(j *batchv1.Job) {
			j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{Action: action,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget,
					Status: corev1.ConditionTrue}}}}}
		}
	}
	disrupted := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}
	suspend := func(j *batchv1.Job) { j.Spec.Suspend = new(true) }
	met := func(j *batchv1.Job) {
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuccessCriteriaMet,
			Status: corev1.ConditionTrue}}
	}
	counted := func(ok, bad string) edit {
		return func(j *batchv1.Job) {
			j.Status.Succeeded, j.Status.Failed = 2, 3
			j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
			for _, uid := range strings.Fields(ok) {
				j.Status.UncountedTerminatedPods.Succeeded = append(j.Status.UncountedTerminatedPods.Succeeded,
					types.UID(uid))
			}
			for _, uid := range strings.Fields(bad) {
				j.Status.UncountedTerminatedPods.Failed = append(j.Status.UncountedTerminatedPods.Failed,
					types.UID(uid))
			}
		}
	}
	for _, c := range []struct {
		name      string
		job       []edit
		pods      []string
		disrupted bool
		want      string
	}{
		{name: "none", want: "create=2"},
		{name: "pending", pods: []string{"Pending"}, want: "active=1 create=1"},
		{name: "running", pods: []string{"Running", "Running ready"}, want: "active=2 ready=1"},
		{name: "too many", pods: []string{"Running ready", "Pending", "Running"},
			want: "active=2 ready=1 terminating=1 release=b delete=b"},
		{name: "succeeded", pods: []string{"Succeeded"}, want: "uncountedOK=[a] release=a create=2"},
		{name: "succeeded and released", pods: []string{"Succeeded untracked"}, want: "create=2"},
		{name: "failed", pods: []string{"Failed"}, want: "uncountedBad=[a] release=a create=2"},
		{name: "failed and released", pods: []string{"Failed untracked"}, want: "create=2"},
		{name: "ending", pods: []string{"Running deleted"}, want: "terminating=1 uncountedBad=[a] release=a create=2"},
		{name: "ending and released", pods: []string{"Running deleted untracked"}, want: "terminating=1 create=2"},
		{name: "ending, replaced when it has failed", job: []edit{replaceFailed}, pods: []string{"Running deleted"},
			want: "terminating=1 create=1"},
		{name: "ending, with a failure policy", job: []edit{policy("Count")}, pods: []string{"Running deleted"},
			want: "terminating=1 create=1"},
		{name: "ending, with a failure policy, replaced at once", job: []edit{policy("Count"), replaceAll},
			pods: []string{"Running deleted"}, want: "terminating=1 uncountedBad=[a] release=a create=2"},
		{name: "ending, suspended", job: []edit{suspend}, pods: []string{"Running deleted", "Running"},
			want: "terminating=2 release=a b delete=b"},
		{name: "failed, suspended", job: []edit{suspend}, pods: []string{"Failed"}, want: "uncountedBad=[a] release=a"},
		{name: "ended after the last completion", job: []edit{met}, pods: []string{"Failed", "Running deleted",
			"Succeeded"},
			want: "terminating=1 uncountedOK=[c] release=a b c"},
		{name: "counted, still tracked", job: []edit{counted("a", "b")}, pods: []string{"Succeeded", "Failed"},
			want: "succeeded=2 failed=3 uncountedOK=[a] uncountedBad=[b] release=a b"},
		{name: "counted, released", job: []edit{counted("a", "b")}, pods: []string{"Succeeded untracked",
			"Failed untracked"}, want: "succeeded=3 failed=4"},
		{name: "counted, gone", job: []edit{counted("x y", "z")}, want: "succeeded=4 failed=4"},
		{name: "an index", job: []edit{indexed(4)}, pods: []string{"Succeeded index=1", "Succeeded index=3",
			"Running index=0"}, want: "active=1 succeeded=2 indexes=1,3 release=a b create=1"},
		{name: "another's index", job: []edit{indexed(3)}, pods: []string{"Succeeded index=3", "Succeeded",
			"Failed index=3", "Running deleted index=3"}, want: "terminating=1 release=a b c d create=2"},
		{name: "an index, counted and gone", job: []edit{indexed(4), counted("x", "y")},
			want: "failed=4 create=2"},
		{name: "an index that failed once", job: []edit{indexed(3), limit}, pods: []string{"Failed index=1"},
			want: "uncountedBad=[a] release=a create=2"},
		{name: "an index that failed too often", job: []edit{indexed(3), limit},
			pods: []string{"Failed index=1 failures=1"}, want: "failedIndexes=1 uncountedBad=[a] release=a create=2"},
		{name: "an index that failed too often and was counted", job: []edit{indexed(3), limit},
			pods: []string{"Failed index=1 failures=1 untracked"}, want: "create=2"},
		{name: "ignored", job: []edit{policy("Ignore")}, pods: []string{"Failed"}, disrupted: true,
			want: "release=a create=2"},
		{name: "not ignored", job: []edit{policy("Ignore")}, pods: []string{"Failed"},
			want: "uncountedBad=[a] release=a create=2"},
		{name: "fails its index", job: []edit{indexed(3), limit, policy("FailIndex")}, pods: []string{"Failed index=2"},
			disrupted: true, want: "failedIndexes=2 uncountedBad=[a] release=a create=2"},
		{name: "a Job that is deleted", job: []edit{replaceFailed, func(j *batchv1.Job) {
			j.DeletionTimestamp = new(metav1.NewTime(t0))
		}}, pods: []string{"Running deleted", "Running"}, want: "active=1 terminating=1 release=a"},
	} {
		w := newFixture(func(s *batchv1.JobSpec) { s.Completions, s.Parallelism = num(3), num(2) })
		for _, e := range c.job {
			e(w.job)
		}
		in := In{Job: w.job, ExpectationsMet: true, Now: t0.Add(time.Hour)}
		for i, words := range c.pods {
			p := onePod(t, string(rune('a'+i)), words)
			if c.disrupted {
				p.Status.Conditions = append(p.Status.Conditions, disrupted)
			}
			in.Pods = append(in.Pods, p)
		}
		before := w.job.DeepCopy()
		if got := planText(Next(in)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if w.job.Status.Succeeded != before.Status.Succeeded || w.job.Status.StartTime != nil {
			t.Errorf("%s: the Job that was read was changed", c.name)
		}
	}
}

// A Job that has finished lets its Pods go: it releases those that it tracks and stops those that
// run, and its status stays.
func TestPodsOfAFinishedJob(t *testing.T) {
	for _, kind := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		for _, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
			w := newFixture(func(s *batchv1.JobSpec) { s.Completions = num(3) })
			w.job.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: status}}
			w.job.Status.Failed = 7
			in := In{Job: w.job, ExpectationsMet: true, Now: t0.Add(time.Hour), Pods: []*corev1.Pod{
				onePod(t, "a", "Succeeded"), onePod(t, "b", "Failed untracked"), onePod(t, "c", "Running"),
				onePod(t, "d", "Running deleted"), onePod(t, "e", "Pending untracked")}}
			p := Next(in)
			got := planText(p)
			const ended = "failed=7 release=a c d delete=c e"
			if (got == ended) != (status == corev1.ConditionTrue) {
				t.Errorf("%s=%s: got %q, want %q if it is true, and only then", kind, status, got, ended)
			}
		}
	}
}

// Until earlier requests have been observed nothing is created or deleted, and a suspended or ended
// Job stops nothing.
func TestRequestsThatAreNotObserved(t *testing.T) {
	for name, edit := range map[string]func(*batchv1.Job){
		"going on":  func(*batchv1.Job) {},
		"suspended": func(j *batchv1.Job) { j.Spec.Suspend = new(true) },
		"ending": func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue}}
		},
	} {
		w := newFixture(nil)
		edit(w.job)
		p := Next(In{Job: w.job, Now: t0, Pods: []*corev1.Pod{onePod(t, "a", "Running"), onePod(t, "b", "Running")}})
		if len(p.Create)+len(p.Delete) != 0 {
			t.Errorf("%s: got %q, want nothing created or deleted", name, planText(p))
		}
	}
}

// The start is noted when Pods may run, and when a Job ends that was not suspended; the deadline
// counts from it.
//
// row: CTL-08
func TestStartAndDeadline(t *testing.T) {
	early := metav1.NewTime(t0.Add(-time.Minute))
	for _, c := range []struct {
		name     string
		edit     func(*batchv1.Job)
		start    *time.Time
		observed bool
		again    time.Duration
	}{
		{name: "new", edit: func(*batchv1.Job) {}, start: &t0, observed: true},
		{name: "not observed", edit: func(*batchv1.Job) {}},
		{name: "started", edit: func(j *batchv1.Job) { j.Status.StartTime = &early }, start: &early.Time,
			observed: true},
		{name: "suspended", edit: func(j *batchv1.Job) { j.Spec.Suspend = new(true) }, observed: true},
		{name: "deleted", edit: func(j *batchv1.Job) { j.DeletionTimestamp = &early }, observed: true},
		{name: "nothing to do", edit: func(j *batchv1.Job) { j.Spec.Completions = num(0) }, start: &t0, observed: true},
		{name: "nothing to do, suspended", edit: func(j *batchv1.Job) {
			j.Spec.Completions, j.Spec.Suspend = num(0), new(true)
		}, observed: true},
		{name: "a deadline", edit: func(j *batchv1.Job) {
			j.Status.StartTime, j.Spec.ActiveDeadlineSeconds = &early, new(int64(100))
		}, start: &early.Time, observed: true, again: 40 * time.Second},
	} {
		w := newFixture(nil)
		c.edit(w.job)
		p := Next(In{Job: w.job, ExpectationsMet: c.observed, Now: t0})
		got := p.Status.StartTime
		if (got == nil) != (c.start == nil) || got != nil && !got.Time.Equal(*c.start) || p.RequeueAfter != c.again {
			t.Errorf("%s: got start %v, again after %v; want %v, %v", c.name, got, p.RequeueAfter, c.start, c.again)
		}
	}
}

// When the last Pod failed is remembered over the Pods that are gone.
func TestWhenAPodLastFailed(t *testing.T) {
	later := t0.Add(time.Hour)
	for _, c := range []struct {
		pods []string
		was  time.Time
		want time.Time
	}{
		{nil, later, later}, {[]string{"Failed"}, time.Time{}, t0}, {[]string{"Failed"}, later, later},
		{[]string{"Failed deleted"}, time.Time{}, t0.Add(30 * time.Second)},
		{[]string{"Running deleted"}, time.Time{}, t0.Add(30 * time.Second)},
		{[]string{"Running", "Succeeded"}, time.Time{}, time.Time{}},
	} {
		w := newFixture(nil)
		in := In{Job: w.job, ExpectationsMet: true, Now: t0.Add(2 * time.Hour), Failed: c.was}
		for i, words := range c.pods {
			in.Pods = append(in.Pods, onePod(t, string(rune('a'+i)), words))
		}
		if got := Next(in).Failed; !got.Equal(c.want) {
			t.Errorf("%q, before %v: got %v, want %v", c.pods, c.was, got, c.want)
		}
	}
}

// A tracked Pod is nobody's when its Job is gone, or when no Job of the namespace selects it.
func TestPodsThatNoJobWillCount(t *testing.T) {
	mine := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "j"}, Spec: batchv1.JobSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}
	going := mine.DeepCopy()
	going.DeletionTimestamp = new(metav1.NewTime(t0))
	broken := mine.DeepCopy()
	broken.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "?"}}
	owned := func(kind string, uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: kind, UID: uid, Controller: new(true)}}
	}
	for _, c := range []struct {
		name, words string
		owners      []metav1.OwnerReference
		label       string
		jobs        []*batchv1.Job
		want        bool
	}{
		{"its Job is there", "", owned("Job", "j"), "", []*batchv1.Job{mine}, false},
		{"its Job is going", "", owned("Job", "j"), "", []*batchv1.Job{going}, false},
		{"its Job is gone", "", owned("Job", "other"), "b", []*batchv1.Job{mine}, true},
		{"not tracked", "untracked", owned("Job", "other"), "b", nil, false},
		{"another controller's", "", owned("ReplicaSet", "other"), "", nil, false},
		{"released, and selected", "", nil, "b", []*batchv1.Job{mine}, false},
		{"released, and not selected", "", nil, "c", []*batchv1.Job{mine}, true},
		{"released, selected by one that goes", "", nil, "b", []*batchv1.Job{going}, true},
		{"released, with a selector that cannot be read", "", nil, "b", []*batchv1.Job{broken}, true},
	} {
		p := onePod(t, "a", "Running "+c.words)
		p.OwnerReferences, p.Labels = c.owners, map[string]string{"a": c.label}
		if got := uncounted(p, c.jobs); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
