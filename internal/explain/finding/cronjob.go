package finding

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NextStart returns when a CronJob starts next after now; zero when its schedule never comes, as on
// the 31st of February.
func NextStart(j *batchv1.CronJob, now time.Time) (time.Time, error) {
	s := j.Spec.Schedule
	if j.Spec.TimeZone != nil && !strings.Contains(s, "TZ") {
		s = "TZ=" + *j.Spec.TimeZone + " " + s
	}
	schedule, err := cron.ParseStandard(s)
	if err != nil {
		return time.Time{}, err
	}
	return schedule.Next(now), nil
}

// longWait is how long until the next start is worth a word.
const longWait = 40 * 24 * time.Hour

// cronJob finds a CronJob that starts nothing: never, or not in time.
func cronJob(c *Cluster, o metav1.Object, self Object) []Finding {
	j, ok := o.(*batchv1.CronJob)
	if !ok {
		return nil
	}
	f := Finding{Stage: StageCreation, Object: self, Field: "spec.schedule", Value: j.Spec.Schedule}
	var out []Finding
	if j.Spec.Suspend != nil && *j.Spec.Suspend {
		out = append(out, Finding{Code: "Suspended", Severity: Note, Stage: StageCreation, Object: self,
			Field: "spec.suspend", Value: "true", Want: "false",
			Message: fmt.Sprintf("CronJob %s is suspended (spec.suspend): it starts no Jobs.", self.Name),
			Remedies: []Remedy{{Say: "let it go on", Run: []string{kubectl(self, "patch",
				`--type=merge -p '{"spec":{"suspend":false}}'`)}}}})
	}
	out = append(out, c.jobsOf(j, self)...)
	next, err := NextStart(j, c.Now)
	switch {
	case err != nil:
		f.Code, f.Message = "ScheduleInvalid",
			fmt.Sprintf("CronJob %s never starts a Job: schedule %q cannot be read: %v.",
				self.Name, j.Spec.Schedule, err)
		out = append(out, f)
	case next.IsZero():
		f.Code, f.Message = "ScheduleNever",
			fmt.Sprintf("CronJob %s never starts a Job: no day of any year matches its "+
				"schedule %q.", self.Name, j.Spec.Schedule)
		f.Remedies = []Remedy{{Say: "give it a schedule that comes, every day at midnight for instance",
			Run: []string{kubectl(self, "patch", `--type=merge -p '{"spec":{"schedule":"0 0 * * *"}}'`)}}}
		out = append(out, f)
	case next.Sub(c.Now) > longWait:
		f.Code, f.Severity = "ScheduleFar", Note
		f.Message = fmt.Sprintf("CronJob %s starts its next Job on %s only, in %d days.", self.Name,
			next.UTC().Format("2 January 2006"), int(next.Sub(c.Now).Hours()/24))
		out = append(out, f)
	}
	if d := j.Spec.StartingDeadlineSeconds; d != nil && *d < 10 {
		out = append(out, Finding{Code: "StartingDeadlineShort", Severity: Threat, Stage: StageCreation, Object: self,
			Field: "spec.startingDeadlineSeconds", Value: fmt.Sprint(*d), Want: "60",
			Numbers: map[string]string{"startingDeadlineSeconds": fmt.Sprint(*d)},
			Message: fmt.Sprintf("CronJob %s may start no Job at all: startingDeadlineSeconds is %d, and controllers "+
				"look at CronJobs every 10 seconds.", self.Name, *d),
			Remedies: []Remedy{{Say: "let it start up to a minute late", Run: []string{kubectl(self, "patch",
				`--type=merge -p '{"spec":{"startingDeadlineSeconds":60}}'`)}}}})
	}
	out = append(out, c.replaced(j, self)...)
	if j.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(j.Status.Active) > 0 &&
		j.Status.LastScheduleTime != nil {
		if due, err := NextStart(j, j.Status.LastScheduleTime.Time); err == nil && !due.IsZero() && due.Before(c.Now) {
			active := j.Status.Active[0].Name
			out = append(out, Finding{Code: "ConcurrencyForbidden", Stage: StageCreation, Object: self,
				Field: "spec.concurrencyPolicy", Value: "Forbid", Related: []Object{{"Job", self.Namespace, active}},
				Numbers: map[string]string{"active": fmt.Sprint(len(j.Status.Active)),
					"skipped": fmt.Sprint(c.skipped(j, due))},
				Message: fmt.Sprintf("CronJob %s has missed its start at %s: concurrencyPolicy Forbid skips each "+
					"start while a Job is active, and Job %s is still "+
					"running%s.", self.Name, due.UTC().Format(time.TimeOnly),
					active, c.withoutDeadline(j, active)),
				Remedies: forbidRemedies(self, active)})
		}
	}
	return out
}

// jobsOf are what is wrong with the settings of the Jobs that a CronJob makes, whether or not one
// was made.
func (c *Cluster) jobsOf(j *batchv1.CronJob, self Object) []Finding {
	x := &batchv1.Job{Spec: j.Spec.JobTemplate.Spec}
	x.Name, x.Namespace, x.CreationTimestamp = j.Name, j.Namespace, metav1.NewTime(c.Now)
	out := job(c, x, self)
	for i := range out {
		f := &out[i]
		rest := strings.TrimPrefix(f.Field, "spec.")
		f.Field = "spec.jobTemplate.spec." + rest
		f.Message = fmt.Sprintf("Of the Jobs that CronJob %s makes: %s", self.Name,
			strings.Replace(f.Message, "Job "+x.Name, "each", 1))
		f.Remedies = nil
		if want, ok := map[string]string{"Suspended": "false", "ParallelismZero": "1"}[f.Code]; ok {
			f.Want = want
			f.setTo(c, want)
		}
	}
	return out
}

// replaced finds a CronJob whose Jobs are all deleted for the next one before they end.
func (c *Cluster) replaced(j *batchv1.CronJob, self Object) []Finding {
	last := j.Status.LastScheduleTime
	if j.Spec.ConcurrencyPolicy != batchv1.ReplaceConcurrent || len(j.Status.Active) == 0 || last == nil {
		return nil
	}
	due, err := NextStart(j, last.Time)
	if err != nil || due.IsZero() {
		return nil
	}
	period, begin := due.Sub(last.Time), j.CreationTimestamp.Time
	if t := j.Status.LastSuccessfulTime; t != nil {
		begin = t.Time
	}
	failed := slices.ContainsFunc(owned[*batchv1.Job](c, "Job", j), func(x *batchv1.Job) bool {
		return x.Status.Failed > 0
	})
	if failed || last.Sub(begin) < period {
		return nil // a Job may have ended in the time that it had
	}
	seconds := fmt.Sprint(int(period.Seconds()))
	return []Finding{{Code: "ReplacedBeforeEnd", Stage: StageChange, Object: self, Field: "spec.concurrencyPolicy",
		Value: "Replace", Want: "Forbid", Numbers: map[string]string{"periodSeconds": seconds},
		Related: []Object{{"Job", self.Namespace, j.Status.Active[0].Name}},
		Message: fmt.Sprintf("No Job of CronJob %s ends: each is deleted when the next one is due, after %s s "+
			"(schedule %q, concurrencyPolicy Replace), and takes longer than "+
			"that.", self.Name, seconds, j.Spec.Schedule),
		Remedies: []Remedy{{Say: "let each Job end before the next one starts", Run: []string{kubectl(self, "patch",
			`--type=merge -p '{"spec":{"concurrencyPolicy":"Forbid"}}'`)}},
			{Say: "or give it a schedule with more time between two starts than a Job takes"}}}}
}

// skipped is how many starts of a CronJob have passed, from one on, at most a hundred.
func (c *Cluster) skipped(j *batchv1.CronJob, due time.Time) int {
	n := 0
	for ; n < 100 && !due.IsZero() && !due.After(c.Now); n++ {
		next, err := NextStart(j, due)
		if err != nil {
			return n + 1
		}
		due = next
	}
	return n
}

// withoutDeadline says since when a Job runs, and that nothing ends it where it has no deadline.
func (c *Cluster) withoutDeadline(j *batchv1.CronJob, active string) string {
	text := ""
	if x, ok := get[*batchv1.Job](c, "Job", j.Namespace, active); ok && x.Status.StartTime != nil {
		text = fmt.Sprintf(" since %s ago", c.Now.Sub(x.Status.StartTime.Time).Round(time.Second))
	}
	if j.Spec.JobTemplate.Spec.ActiveDeadlineSeconds == nil {
		text += " (without activeDeadlineSeconds, so nothing but its own program ends it)"
	}
	return text
}

// forbidRemedies are what lets a CronJob start again whose Job does not end.
func forbidRemedies(self Object, active string) []Remedy {
	job := Object{"Job", self.Namespace, active}
	return []Remedy{SeeWhy("see why that Job does not end", job),
		{Say: "end the running Job: what it has not finished is lost, and the next start comes as scheduled",
			Run: []string{kubectl(job, "delete", "")}},
		{Say: "or let Jobs run beside each other: concurrencyPolicy Allow", Run: []string{kubectl(self, "patch",
			`--type=merge -p '{"spec":{"concurrencyPolicy":"Allow"}}'`)}},
		{Say: "or let the next start end the running one: concurrencyPolicy Replace", Run: []string{kubectl(self,
			"patch",
			`--type=merge -p '{"spec":{"concurrencyPolicy":"Replace"}}'`)}}}
}
