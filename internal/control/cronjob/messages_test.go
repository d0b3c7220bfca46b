package cronjob

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// said prints a plan: what it starts, deletes, lists as active, when it looks again, and its events
// whole.
func said(p Plan) string {
	start := "nothing"
	if p.Start != nil {
		start = p.Start.Name + " of " + p.At.UTC().Format("15:04:05")
	}
	var gone, active []string
	for _, j := range p.Delete {
		gone = append(gone, j.Name)
	}
	for _, r := range p.Status.Active {
		active = append(active, r.Name)
	}
	out := fmt.Sprintf("start %s, delete %v, active %v, again in %s", start, gone, active, p.RequeueAfter)
	for _, e := range p.Events {
		out += fmt.Sprintf("\n%s %s: %s", e.Type, e.Reason, e.Message)
	}
	return out
}

// row: CTL-11
func TestPlansWhole(t *testing.T) {
	change := func(f func(*batchv1.CronJob)) *batchv1.CronJob { return cronJob("* * * * *", f) }
	r, second := job("r", "", -time.Minute), job("second", "", -time.Minute)
	both := func(policy batchv1.ConcurrencyPolicy) *batchv1.CronJob {
		return change(func(cj *batchv1.CronJob) {
			cj.Spec.ConcurrencyPolicy = policy
			cj.Status.Active = []corev1.ObjectReference{{Name: "r", UID: "r"}, {Name: "second", UID: "second"}}
		})
	}
	const plain = "start c-29455800 of 10:00:00, delete [], active [], again in 30.1s"
	const waits = "start nothing, delete [], active [], again in 30.1s"
	const still = "start nothing, delete [], active [], again in 0s"
	for name, c := range map[string]struct {
		cj   *batchv1.CronJob
		jobs []*batchv1.Job
		want string
	}{
		"starts": {cj: cronJob("* * * * *"), want: plain},
		"at this very " +
			"second": {cj: change(func(cj *batchv1.CronJob) { cj.Status.LastScheduleTime = at(-31 * time.Second) }),
			want: plain},
		"was started": {cj: change(func(cj *batchv1.CronJob) {
			cj.Status.LastScheduleTime = at(-30 * time.Second)
		}), want: waits},
		"is going away": {cj: change(func(cj *batchv1.CronJob) { cj.DeletionTimestamp = at(0) }), want: still},
		"suspended":     {cj: change(func(cj *batchv1.CronJob) { cj.Spec.Suspend = new(true) }), want: still},
		"not suspended": {cj: change(func(cj *batchv1.CronJob) { cj.Spec.Suspend = new(false) }), want: plain},
		"a deadline just " +
			"met": {cj: change(func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = new(int64(31)) }),
			want: plain},
		"a deadline of an " +
			"hour": {cj: change(func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = new(int64(3600)) }),
			want: plain},
		"a deadline " +
			"missed": {cj: change(func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = new(int64(29)) }),
			want: waits},
		"no such zone": {cj: change(func(cj *batchv1.CronJob) { cj.Spec.TimeZone = new("Moon/Base") }),
			want: still + "\nWarning UnknownTimeZone: invalid timeZone: \"Moon/Base\": unknown time zone Moon/Base"},
		"no schedule": {cj: cronJob("every day"), want: still +
			"\nWarning UnparseableSchedule: unparseable schedule: " +
			"\"every day\" : expected exactly 5 fields, found 2: [every day]"},
		"never": {cj: cronJob("0 0 31 2 *"), want: still +
			"\nWarning InvalidSchedule: invalid schedule: 0 0 31 2 * : time " +
			"difference between two schedules is less than 1 second"},
		"a zone of its own": {cj: cronJob("TZ=Asia/Kolkata 30 15 * * *"),
			want: "start c-29455800 of 10:00:00, delete [], active [], again in 23h59m30.1s\nWarning " +
				"UnsupportedSchedule: " +
				"CRON_TZ or TZ used in schedule \"TZ=Asia/Kolkata 30 15 * * *\" is not officially supported, see " +
				"https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"},
		"its own before the field's": {cj: cronJob("TZ=Asia/Kolkata 30 15 * * *",
			func(cj *batchv1.CronJob) { cj.Spec.TimeZone = new("UTC") }),
			want: "start c-29455800 of 10:00:00, delete [], active [], again in 23h59m30.1s\nWarning " +
				"UnsupportedSchedule: " +
				"CRON_TZ or TZ used in schedule \"TZ=Asia/Kolkata 30 15 * * *\" is not officially supported, see " +
				"https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"},
		"missed for long": {cj: change(func(cj *batchv1.CronJob) { cj.CreationTimestamp = *at(-101 * time.Minute) }),
			want: plain + "\nWarning TooManyMissedTimes: too many missed start times. Set or decrease " +
				".spec.startingDeadlineSeconds or check clock skew"},
		"missed a " +
			"hundred": {cj: change(func(cj *batchv1.CronJob) { cj.CreationTimestamp = *at(-100 * time.Minute) }),
			want: plain},
		"forbids": {cj: both("Forbid"), jobs: []*batchv1.Job{r, second},
			want: "start nothing, delete [], active [r second], again in 30.1s\nNormal JobAlreadyActive: Not " +
				"starting job because prior execution is running and concurrency policy is Forbid"},
		"replaces": {cj: both("Replace"), jobs: []*batchv1.Job{second, r, job("done", batchv1.JobComplete, -time.Hour)},
			want: "start c-29455800 of 10:00:00, delete [second r], active [], again in 30.1s"},
		"allows": {cj: both("Allow"), jobs: []*batchv1.Job{r, second},
			want: "start c-29455800 of 10:00:00, delete [], active [r second], again in 30.1s"},
		"is listed": {cj: change(func(cj *batchv1.CronJob) {
			cj.Status.Active = []corev1.ObjectReference{{Name: "c-29455800", UID: "u"}}
		}), jobs: []*batchv1.Job{{ObjectMeta: metav1.ObjectMeta{Name: "c-29455800", UID: "u"}}},
			want: "start nothing, delete [], active [c-29455800], again in 30.1s"},
		"one ended, one is missing, one is strange": {cj: both("Allow"),
			jobs: []*batchv1.Job{job("r", batchv1.JobFailed, 0), job("x", "", 0), job("old", batchv1.JobComplete, 0)},
			want: plain +
				"\nNormal SawCompletedJob: Saw completed job: r, condition: Failed\nWarning MissingJob: Active job " +
				"went missing: second\nWarning UnexpectedJob: Saw a job that the controller did not create or " +
				"forgot: x"},
	} {
		if got := said(Next(In{CronJob: c.cj, Jobs: c.jobs, Now: t0})); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
	// a deadline that lies between the time and now is told of
	in := In{CronJob: change(func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = new(int64(20)) }), Now: t0}
	var late Plan
	in.startJob(&late, t0.Add(-21*time.Second))
	if want := "Warning MissSchedule: Missed scheduled time to start a job: Fri, 02 Jan 2026 10:00:09 " +
		"+0000"; !strings.HasSuffix(
		said(late), want) || late.Start != nil {
		t.Errorf("got %s, want %s", said(late), want)
	}
	var just Plan
	if in.startJob(&just, t0.Add(-20*time.Second)); just.Start == nil {
		t.Error("exactly at the deadline: nothing is started")
	}
}

// The oldest beyond the limit go: those that began first, of those that began together the first by
// name, and last those that never began.
//
// row: CTL-11
func TestHistoryGoesOldestFirst(t *testing.T) {
	never := job("never", batchv1.JobComplete, 0)
	never.Status.StartTime = nil
	again := job("again", batchv1.JobComplete, 0)
	again.Status.StartTime = nil
	going := job("going", batchv1.JobComplete, -9*time.Hour)
	going.DeletionTimestamp = at(0)
	odd := job("odd", batchv1.JobComplete, -20*time.Hour)
	odd.Status.Conditions[0].Status = corev1.ConditionFalse // it has not ended
	jobs := []*batchv1.Job{never, job("b", batchv1.JobComplete, -time.Hour), job("f", batchv1.JobFailed, -8*time.Hour),
		job("a", batchv1.JobComplete, -time.Hour), job("first", batchv1.JobComplete, -2*time.Hour), again, going, odd,
		job("e", batchv1.JobFailed, -9*time.Hour)}
	order := []string{"going", "first", "a", "b", "again", "never"}
	for limit := range 8 {
		cj := cronJob("0 0 1 1 *")
		cj.Spec.SuccessfulJobsHistoryLimit, cj.Spec.FailedJobsHistoryLimit = new(int32(limit)), nil
		var got []string
		for _, j := range Next(In{CronJob: cj, Jobs: jobs, Now: t0}).Delete {
			got = append(got, j.Name)
		}
		want := order[:max(len(order)-limit, 0)]
		if len(want) > 0 {
			want = want[1:] // the one that is going already
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("limit %d: got %v, want %v", limit, got, want)
		}
	}
	cj := cronJob("0 0 1 1 *")
	cj.Spec.SuccessfulJobsHistoryLimit, cj.Spec.FailedJobsHistoryLimit = nil, new(int32(1))
	if got := Next(In{CronJob: cj, Jobs: jobs, Now: t0}).Delete; len(got) != 1 || got[0].Name != "e" {
		t.Errorf("of the failed: got %v, want e", got)
	}
}

// row: CTL-11
func TestTheLatestSuccessIsKept(t *testing.T) {
	ended := func(name string, d time.Duration) *batchv1.Job {
		j := job(name, batchv1.JobComplete, d)
		j.Status.CompletionTime = at(d)
		return j
	}
	unknown, failed := ended("u", 0), job("f", batchv1.JobFailed, 0)
	unknown.Status.CompletionTime = nil
	failed.Status.CompletionTime = at(time.Hour)
	for _, c := range []struct {
		was  *metav1.Time
		jobs []*batchv1.Job
		want *metav1.Time
	}{
		{nil, nil, nil}, {nil, []*batchv1.Job{unknown, failed}, nil},
		{nil, []*batchv1.Job{ended("a", -time.Hour), ended("b", -time.Minute), ended("c", -2*time.Hour)},
			at(-time.Minute)},
		{at(-time.Second), []*batchv1.Job{ended("b", -time.Minute)}, at(-time.Second)},
		{at(-time.Hour), []*batchv1.Job{ended("b", -time.Minute)}, at(-time.Minute)},
	} {
		cj := cronJob("0 0 1 1 *")
		cj.Status.LastSuccessfulTime = c.was
		if got := Next(In{CronJob: cj, Jobs: c.jobs, Now: t0}).Status.LastSuccessfulTime; !got.Equal(c.want) {
			t.Errorf("%v: got %v, want %v", c.jobs, got, c.want)
		}
	}
}

// row: CTL-11
func TestTheJobOfATime(t *testing.T) {
	cj := cronJob("* * * * *")
	cj.Spec.JobTemplate = batchv1.JobTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "1"},
		Annotations: map[string]string{"a": "1"}}, Spec: batchv1.JobSpec{Parallelism: new(int32(7))}}
	j := Job(cj, t0)
	got := fmt.Sprint(j.Namespace, " ", j.Name, " ", j.Labels, " ", j.Annotations, " ", *j.Spec.Parallelism, " ",
		j.OwnerReferences[0].Kind, " ", j.OwnerReferences[0].APIVersion, " ", j.OwnerReferences[0].Name)
	want := "ns c-29455800 map[l:1] map[a:1 batch.kubernetes.io/cronjob-scheduled-timestamp:2026-01-02T10:00:30Z] 7 " +
		"CronJob batch/v1 c"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(cj.Spec.JobTemplate.Annotations) != 1 {
		t.Errorf("the template changed: %v, want 1 of them", cj.Spec.JobTemplate.Annotations)
	}
	cj.Spec.TimeZone = new("Moon/Base")
	if got := Job(cj, t0).Annotations[batchv1.CronJobScheduledTimestampAnnotation]; got != "2026-01-02T10:00:30Z" {
		t.Errorf("in no zone: got %s, want 2026-01-02T10:00:30Z", got)
	}
}

// The most recent time is the one that counting one by one finds, whatever the interval.
//
// row: CTL-11
func TestMostRecentScheduleTime(t *testing.T) {
	for _, text := range []string{"* * * * *", "*/7 * * * *", "0 3 * * 1", "0 0 1 * *", "@every 90s"} {
		s, err := cron.ParseStandard(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, back := range []time.Duration{0, time.Second, time.Minute, 99 * time.Minute, 100 * time.Minute,
			101 * time.Minute,
			102 * time.Minute, 5 * time.Hour, 40 * time.Hour, 1000 * time.Hour} {
			from := t0.Add(-back)
			var want time.Time
			n := 0
			for next := s.Next(from); !next.After(t0); next = s.Next(next) {
				want, n = next, n+1
			}
			got, count := mostRecentScheduleTime(s, from, t0)
			fixed := !strings.HasPrefix(text, "@") // who counts from the last time is not comparable after a jump
			if fixed && !got.Equal(want) || (count > tooManyMissed) != (n > tooManyMissed) || n <= tooManyMissed &&
				count != n {
				t.Errorf("%s, %s back: got %s, %d, want %s, %d", text, back, got, count, want, n)
			}
		}
	}
}
