package batch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// What the columns Status, Completions and Duration of a Job say: the first of its conditions in
// kubectl's order, what it is to complete, and how long it has been at it.
func TestCellsOfAJob(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	ago := func(d time.Duration) *metav1.Time { return new(metav1.NewTime(now.Add(-d))) }
	for _, c := range []struct {
		conditions              string
		deleted                 bool
		completions, parallel   int32 // -1: none
		started, ended          *metav1.Time
		state, completed, lasts string
	}{
		{completions: 3, parallel: 1, state: "Running", completed: "2/3"},
		{completions: -1, parallel: 1, state: "Running", completed: "2/1"},
		{completions: -1, parallel: -1, state: "Running", completed: "2/1"},
		{completions: -1, parallel: 2, state: "Running", completed: "2/1 of 2"},
		{conditions: "SuccessCriteriaMet", state: "SuccessCriteriaMet", completed: "2/0"},
		{conditions: "SuccessCriteriaMet FailureTarget", state: "FailureTarget", completed: "2/0"},
		{conditions: "FailureTarget Suspended", state: "Suspended", completed: "2/0"},
		{conditions: "Suspended", deleted: true, state: "Terminating", completed: "2/0"},
		{conditions: "Failed FailureTarget", deleted: true, state: "Failed", completed: "2/0"},
		{conditions: "Failed Complete", state: "Complete", completed: "2/0"},
		{conditions: "Complete=False Suspended=Unknown", state: "Running", completed: "2/0"},
		{started: ago(90 * time.Second), state: "Running", completed: "2/0", lasts: "90s"},
		{started: ago(time.Hour), ended: ago(30 * time.Minute), state: "Running", completed: "2/0", lasts: "30m"},
		{ended: ago(time.Hour), state: "Running", completed: "2/0"},
	} {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"},
			Status: batchv1.JobStatus{Succeeded: 2, StartTime: c.started, CompletionTime: c.ended}}
		for _, word := range strings.Fields(c.conditions) {
			kind, status, given := strings.Cut(word, "=")
			if !given {
				status = "True"
			}
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: batchv1.JobConditionType(kind),
				Status: corev1.ConditionStatus(status)})
		}
		if c.deleted {
			j.DeletionTimestamp = &now
		}
		if c.completions >= 0 {
			j.Spec.Completions = &c.completions
		}
		if c.parallel >= 0 {
			j.Spec.Parallelism = &c.parallel
		}
		row := jobRow(j, resourcedef.RowOptions{Now: now})
		got, want := fmt.Sprint(row[1:4]), fmt.Sprint([]any{c.state, c.completed, c.lasts})
		if got != want {
			t.Errorf("%+v: got %s, want %s", c, got, want)
		}
	}
}

// Which index two lists have in common first.
func TestOverlapOfIndexes(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want string
	}{{"", "", "0 false"}, {"1", "", "0 false"}, {"1", "1", "1 true"}, {"1-3", "3-5", "3 true"},
		{"3-5", "1-3", "3 true"}, {"1-3", "4-5", "0 false"}, {"4-5", "1-3", "0 false"}, {"1,5-7", "2-3,6", "6 true"},
		{"2-3,6", "1,5-7", "6 true"}, {"1-9", "4", "4 true"}, {"4", "1-9", "4 true"}, {"0", "0-1", "0 true"}} {
		a, _ := parseIndexes(c.a, 10)
		b, _ := parseIndexes(c.b, 10)
		n, both := countOverlap(a, b)
		if got := fmt.Sprint(n, both); got != c.want {
			t.Errorf("%q and %q: got %s, want %s", c.a, c.b, got, c.want)
		}
	}
	for list, want := range map[string]int32{"": 0, "3": 1, "1-3": 3, "0,2-4,9": 5} {
		spans, err := parseIndexes(list, 10)
		if got := size(spans); got != want || err != nil {
			t.Errorf("%q: got %d, %v, want %d", list, got, err, want)
		}
	}
}

// A time zone in the schedule is warned of at each update of a CronJob that has one already.
func TestAScheduleWithAZoneIsWarnedOf(t *testing.T) {
	const want = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see " +
		"https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
	for schedule, warned := range map[string]bool{"TZ=UTC * * * * *": true, "CRON_TZ=UTC * * * * *": true,
		"* * * * *": false, "@hourly": false} {
		c := &batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: schedule}}
		got := warnChangedCronJob(c, c)
		if warned != (len(got) == 1 && got[0] == want) || !warned && len(got) > 0 {
			t.Errorf("%s: got %q, want the warning: %v", schedule, got, warned)
		}
	}
}
