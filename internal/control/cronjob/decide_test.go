package cronjob

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var t0 = time.Date(2026, 1, 2, 10, 0, 30, 0, time.UTC)

func at(d time.Duration) *metav1.Time { return &metav1.Time{Time: t0.Add(d)} }

func cronJob(schedule string, change ...func(*batchv1.CronJob)) *batchv1.CronJob {
	cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns", UID: "c",
		CreationTimestamp: *at(-90 * time.Second)},
		Spec: batchv1.CronJobSpec{Schedule: schedule, ConcurrencyPolicy: batchv1.AllowConcurrent,
			SuccessfulJobsHistoryLimit: new(int32(1)), FailedJobsHistoryLimit: new(int32(1))}}
	for _, c := range change {
		c(cj)
	}
	return cj
}

func running(cj *batchv1.CronJob) { cj.Status.Active = []corev1.ObjectReference{{Name: "r", UID: "r"}} }

func job(name string, how batchv1.JobConditionType, started time.Duration) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Status: batchv1.JobStatus{StartTime: at(started)}}
	if how != "" {
		j.Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue}}
		j.Status.CompletionTime = at(started + time.Second)
	}
	return j
}

// row: CTL-11
func TestWhenAJobStarts(t *testing.T) {
	policy := func(p batchv1.ConcurrencyPolicy) func(*batchv1.CronJob) {
		return func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = p }
	}
	deadline := func(s int64) func(*batchv1.CronJob) {
		return func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = &s }
	}
	last := func(d time.Duration) func(*batchv1.CronJob) {
		return func(cj *batchv1.CronJob) { cj.Status.LastScheduleTime = at(d) }
	}
	old := func(cj *batchv1.CronJob) { cj.CreationTimestamp = *at(-24 * 365 * time.Hour) }
	zone := func(z string) func(*batchv1.CronJob) { return func(cj *batchv1.CronJob) { cj.Spec.TimeZone = &z } }
	suspended := func(cj *batchv1.CronJob) { cj.Spec.Suspend = new(true) }
	r := []*batchv1.Job{job("r", "", -time.Minute)}
	for _, c := range []struct {
		name    string
		in      In
		start   string
		deleted string
		event   string
	}{
		{"the minute that has passed", In{CronJob: cronJob("* * * * *")}, "c-29455800", "", ""},
		{"not yet", In{CronJob: cronJob("0 11 * * *")}, "", "", ""},
		{"not twice", In{CronJob: cronJob("* * * * *", last(-30*time.Second))}, "", "", ""},
		{"only the last of many missed", In{CronJob: cronJob("* * * * *", last(-10*time.Minute))}, "c-29455800", "",
			""},
		{"after a long sleep, and said", In{CronJob: cronJob("* * * * *", old)}, "c-29455800", "",
			"TooManyMissedTimes"},
		{"too late", In{CronJob: cronJob("0 10 * * *", old, deadline(20))}, "", "", ""},
		{"in time", In{CronJob: cronJob("0 10 * * *", deadline(60))}, "c-29455800", "", ""},
		{"suspended", In{CronJob: cronJob("* * * * *", suspended)}, "", "", ""},
		{"forbidden beside another", In{CronJob: cronJob("* * * * *", policy(batchv1.ForbidConcurrent), running),
			Jobs: r}, "", "", "JobAlreadyActive"},
		{"beside another", In{CronJob: cronJob("* * * * *", running), Jobs: r}, "c-29455800", "", ""},
		{"in place of another", In{CronJob: cronJob("* * * * *", policy(batchv1.ReplaceConcurrent), running), Jobs: r},
			"c-29455800", "r", ""},
		{"by its own zone", In{CronJob: cronJob("30 15 * * *", zone("Asia/Kolkata"))}, "c-29455800", "", ""},
		{"no such zone", In{CronJob: cronJob("* * * * *", zone("Moon/Base"))}, "", "", "UnknownTimeZone"},
		{"no schedule", In{CronJob: cronJob("every day")}, "", "", "UnparseableSchedule"},
		{"a day that never comes", In{CronJob: cronJob("0 0 31 2 *")}, "", "", "InvalidSchedule"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.in.Now = t0
			p := Next(c.in)
			start, deleted, events := "", "", ""
			if p.Start != nil {
				start = p.Start.Name
			}
			for _, j := range p.Delete {
				deleted += j.Name
			}
			for _, e := range p.Events {
				events += e.Reason
			}
			if start != c.start || deleted != c.deleted || events != c.event {
				t.Errorf("starts %q deletes %q says %q, want %q %q %q", start, deleted, events, c.start, c.deleted,
					c.event)
			}
		})
	}
}

// row: CTL-11
func TestHistoryAndActiveList(t *testing.T) {
	cj := cronJob("0 0 1 1 *")
	cj.Status.Active = []corev1.ObjectReference{{Name: "s2", UID: "s2"}, {Name: "lost", UID: "lost"},
		{Name: "r", UID: "r"}}
	p := Next(In{CronJob: cj, Now: t0, Jobs: []*batchv1.Job{
		job("s2", batchv1.JobComplete, -time.Minute), job("s1", batchv1.JobComplete, -time.Hour),
		job("f1", batchv1.JobFailed, -time.Hour), job("r", "", 0), job("x", "", 0),
	}})
	if len(p.Delete) != 1 || p.Delete[0].Name != "s1" {
		t.Errorf("deletes %v, want the older success", p.Delete)
	}
	if len(p.Status.Active) != 1 || p.Status.Active[0].Name != "r" || !p.Status.LastSuccessfulTime.Equal(
		at(-59*time.Second)) {
		t.Errorf("got %+v, want 1 in Active, Name r and LastSuccessfulTime %v", p.Status, at(-59*time.Second))
	}
	var message []string
	for _, e := range p.Events {
		message = append(message, e.Reason)
	}
	if got, want := strings.Join(message, " "), "SawCompletedJob MissingJob UnexpectedJob"; got != want {
		t.Errorf("message = %q, want %q", got, want)
	}
	cj.Spec.SuccessfulJobsHistoryLimit = new(int32(5)) // failed Jobs have a limit of their own
	p = Next(In{CronJob: cj, Now: t0, Jobs: []*batchv1.Job{job("f3", batchv1.JobFailed, -time.Minute),
		job("f1", batchv1.JobFailed, -time.Hour), job("f2", batchv1.JobFailed, -2*time.Minute),
		job("s1", batchv1.JobComplete, -3*time.Hour)}})
	if len(p.Delete) != 2 || p.Delete[0].Name != "f1" || p.Delete[1].Name != "f2" {
		t.Errorf("of three failed Jobs and one that succeeded: got %v deleted, want f1 and f2", p.Delete)
	}
}

// row: CTL-11
func TestJobHasTheScheduledTimestamp(t *testing.T) {
	cj := cronJob("* * * * *")
	cj.Spec.TimeZone = new("Asia/Kolkata")
	j := Job(cj, time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC))
	if got := j.Annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"]; got != "2026-01-02T15:30:00+05:30" ||
		!metav1.IsControlledBy(j, cj) {
		t.Errorf(`got %q %+v, want "2026-01-02T15:30:00+05:30" and metav1.IsControlledBy(j, cj) true`, got,
			j.OwnerReferences)
	}
}
