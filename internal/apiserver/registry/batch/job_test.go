package batch

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/test/expect"
)

var errorTexts = expect.ErrorTexts

func condition(t batchv1.JobConditionType) batchv1.JobCondition {
	return batchv1.JobCondition{Type: t, Status: corev1.ConditionTrue}
}

// TestJobStatusLeadsToOneEnd goes through what a controller does with a Job, and what it may not
// do.
func TestJobStatusLeadsToOneEnd(t *testing.T) {
	start, end := metav1.Unix(100, 0), metav1.Unix(200, 0)
	running := batchv1.JobStatus{StartTime: &start, Active: 1}
	met := batchv1.JobStatus{StartTime: &start,
		Conditions: []batchv1.JobCondition{condition(batchv1.JobSuccessCriteriaMet)}}
	done := batchv1.JobStatus{StartTime: &start, CompletionTime: &end, Succeeded: 1,
		Conditions: append(met.Conditions, condition(batchv1.JobComplete))}
	failing := batchv1.JobStatus{StartTime: &start,
		Conditions: []batchv1.JobCondition{condition(batchv1.JobFailureTarget)}}
	failed := batchv1.JobStatus{StartTime: &start, Failed: 1,
		Conditions: append(failing.Conditions, condition(batchv1.JobFailed))}
	change := func(s batchv1.JobStatus, f func(*batchv1.JobStatus)) batchv1.JobStatus {
		s = *s.DeepCopy()
		f(&s)
		return s
	}
	for _, c := range []struct {
		name     string
		was, now batchv1.JobStatus
		spec     batchv1.JobSpec
		want     string
	}{
		{name: "starts", now: running},
		{name: "meets its criteria", was: running, now: met},
		{name: "completes", was: met, now: done},
		{name: "fails", was: failing, now: failed},
		{name: "completes at once", was: running,
			now: change(done, func(s *batchv1.JobStatus) { s.Conditions = s.Conditions[1:] }),
			want: "status.conditions: Invalid value: cannot set Complete=True condition without the " +
				"SuccessCriteriaMet=true condition"},
		{name: "ends with Pods running", was: met, now: change(done, func(s *batchv1.JobStatus) { s.Active = 2 }),
			want: "status.active: Invalid value: 2: active>0 is invalid for finished job"},
		{name: "ends with Pods ending", was: failing,
			now:  change(failed, func(s *batchv1.JobStatus) { s.Terminating = new(int32(1)) }),
			want: "status.terminating: Invalid value: 1: terminating>0 is invalid for finished job"},
		{name: "ends before it started", was: met,
			now: change(done, func(s *batchv1.JobStatus) { s.CompletionTime = new(metav1.Unix(50, 0)) }),
			want: "status.completionTime: Invalid value: \"" + time.Unix(50, 0).UTC().Format(time.RFC3339) +
				"\": completionTime cannot be set before startTime"},
		{name: "comes back", was: failed, now: running,
			want: "status.conditions: Invalid value: cannot disable the terminal Failed=True condition\n" +
				"status.conditions: Invalid value: cannot disable the terminal FailureTarget=True " +
				"condition\nstatus.failed: Invalid value: 0: cannot decrease the failed counter"},
		{name: "starts again", was: running, now: change(running, func(s *batchv1.JobStatus) { s.StartTime = &end }),
			want: "status.startTime: Invalid value: \"1970-01-01T00:03:20Z\": " +
				"field is immutable for unsuspended job once set"},
		{name: "is suspended", was: running,
			now:  batchv1.JobStatus{Conditions: []batchv1.JobCondition{condition(batchv1.JobSuspended)}},
			spec: batchv1.JobSpec{Suspend: new(true)}},
		{name: "counts more ready than active", was: running,
			now:  change(running, func(s *batchv1.JobStatus) { s.Ready = new(int32(3)) }),
			want: "status.ready: Invalid value: 3: cannot set more ready pods than active"},
		{name: "counts a Pod twice", was: running, now: change(running, func(s *batchv1.JobStatus) {
			s.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"a"},
				Failed: []types.UID{"a", ""}}
		}), want: "status.uncountedTerminatedPods.failed[0]: Duplicate value: " +
			"\"a\"\nstatus.uncountedTerminatedPods.failed[1]: Invalid value: \"\": must not be empty"},
		{name: "indexes of a plain Job", was: running,
			now: change(running, func(s *batchv1.JobStatus) { s.CompletedIndexes = "0" }),
			want: "status.completedIndexes: Invalid value: \"0\": cannot set non-empty completedIndexes when " +
				"non-indexed completion mode"},
		{name: "an index both done and failed", was: running,
			now: change(running,
				func(s *batchv1.JobStatus) { s.CompletedIndexes, s.FailedIndexes = "0,2-4", new("3") }),
			spec: batchv1.JobSpec{CompletionMode: new(batchv1.IndexedCompletion), Completions: new(int32(5)),
				BackoffLimitPerIndex: new(int32(1))},
			want: "status.failedIndexes: Invalid value: \"3\": failedIndexes and completedIndexes overlap at index: 3"},
		{name: "an index too large", was: running,
			now:  change(running, func(s *batchv1.JobStatus) { s.CompletedIndexes = "0,7" }),
			spec: batchv1.JobSpec{CompletionMode: new(batchv1.IndexedCompletion), Completions: new(int32(5))},
			want: "status.completedIndexes: Invalid value: \"0,7\": error parsing completedIndexes: too large index: " +
				"\"7\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := errorTexts(checkJobStatus(&batchv1.Job{Spec: c.spec, Status: c.now},
				&batchv1.Job{Spec: c.spec, Status: c.was}))
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestSuspendedJobMayBePlacedAnew lets a queue choose nodes and resources while a Job waits, and
// nothing else.
func TestSuspendedJobMayBePlacedAnew(t *testing.T) {
	job := func(suspend bool, edit func(*corev1.PodSpec)) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u"}}
		j.Spec.Suspend = &suspend
		j.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "c", Image: "i"}}}
		defaultJob(j)
		generateSelector(j)
		if edit != nil {
			edit(&j.Spec.Template.Spec)
		}
		return j
	}
	place := func(s *corev1.PodSpec) {
		s.NodeSelector = map[string]string{"a": "b"}
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
		s.Containers[0].Resources.Limits = corev1.ResourceList{}
	}
	for _, c := range []struct {
		name    string
		suspend bool
		edit    func(*corev1.PodSpec)
		refused bool
	}{
		{"suspended, other nodes", true, place, false},
		{"running, other nodes", false, place, true},
		{"suspended, other image", true, func(s *corev1.PodSpec) { s.Containers[0].Image = "y" }, true},
		{"suspended, renamed and sized", true, func(s *corev1.PodSpec) {
			s.Containers[0].Name = "y"
			s.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1")}
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := errorTexts(checkJob(job(c.suspend, c.edit), job(c.suspend, nil)))
			if strings.Contains(got, "field is immutable") != c.refused || !c.refused && got != "" {
				t.Errorf("got %q, want it refused as immutable: %t", got, c.refused)
			}
			if at := map[bool]string{true: "spec.template.spec: ", false: "spec.template: "}[c.suspend]; c.refused &&
				!strings.HasPrefix(got, at) {
				t.Errorf("got %q, want it to begin with %q", got, at)
			}
		})
	}
}

// TestForeignLabelsAreRefused keeps labels a client chose, so that the check can name them.
func TestForeignLabelsAreRefused(t *testing.T) {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u"}}
	j.Spec.Template.Labels = map[string]string{"job-name": "other"}
	j.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	defaultJob(j)
	generateSelector(j)
	if got := errorTexts(checkJob(j, nil)); !strings.HasPrefix(got,
		`spec.template.metadata.labels[job-name]: Invalid value: `) || !strings.HasSuffix(got, "must be 'x'") {
		t.Errorf(`got %v, want it beginning with "spec.template.metadata.labels[job-name]: Invalid value:" and it `+
			`ending in "must be 'x'"`, got)
	}
}

func TestParseIndexes(t *testing.T) {
	for _, c := range []struct {
		list string
		size int32
		err  string
	}{
		{"", 0, ""},
		{"0", 1, ""},
		{"0,2-4,9", 5, ""},
		{"3-1", 0, "non-increasing order, previous: 3, current: 1"},
		{"1,1", 0, "non-increasing order, previous: 1, current: 1"},
		{"1-2-3", 0,
			`the fragment "1-2-3" violates the requirement that an index interval can have at most two parts ` +
				`separated by '-'`},
		{"x", 0, `cannot convert string to integer for index: "x"`},
		{"2-10", 0, `too large index: "10"`},
	} {
		spans, err := parseIndexes(c.list, 10)
		if got := size(spans); got != c.size || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%q: %d %v, want %d %s", c.list, got, err, c.size, c.err)
		}
	}
}

func TestScheduleWithoutFieldsIsRefusedNotPanicking(t *testing.T) {
	c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("x", 53)}}
	c.Spec.Schedule = "TZ=UTC"
	c.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	defaultCronJob(c)
	want := `spec.schedule: Invalid value: "TZ=UTC": invalid schedule format: runtime error: slice bounds out of ` +
		"range [:-1]\n" +
		`spec.schedule: Invalid value: "TZ=UTC": cannot use TZ or CRON_TZ in schedule, use timeZone field instead` +
		"\n" +
		`metadata.name: Invalid value: "` + c.Name + `": must be no more than 52 characters`
	if got := errorTexts(checkCronJob(c, nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
