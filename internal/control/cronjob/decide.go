package cronjob

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	jobutil "github.com/gantry-project/gantry/internal/job"
	"github.com/gantry-project/gantry/internal/pod"
)

// tooManyMissed is the number of missed starts from which an event is recorded.
const tooManyMissed = 100

// In is the input of Next: a CronJob, the Jobs it controls, and the time.
type In struct {
	CronJob *batchv1.CronJob
	Jobs    []*batchv1.Job
	Now     time.Time
}

// Event is an event to record on the CronJob.
type Event struct{ Type, Reason, Message string }

// Plan is the outcome of Next.
type Plan struct {
	Status       batchv1.CronJobStatus
	Delete       []*batchv1.Job // history beyond the limits, and replaced Jobs
	Start        *batchv1.Job   // the Job to create
	At           time.Time      // the scheduled time of Start
	RequeueAfter time.Duration  // until the next scheduled time; zero: only after a change
	Events       []Event
}

func (p *Plan) addEvent(kind, reason, format string, args ...any) {
	p.Events = append(p.Events, Event{kind, reason, fmt.Sprintf(format, args...)})
}

// Next plans one sync by upstream's rules: finished Jobs leave the active list, history is trimmed,
// and the latest scheduled time that has passed starts a Job unless it is too late or the
// concurrency policy forbids it.
func Next(in In) Plan {
	plan := Plan{Status: *in.CronJob.Status.DeepCopy()}
	in.countActive(&plan)
	in.trimHistory(&plan)
	cj := in.CronJob
	if cj.DeletionTimestamp != nil {
		return plan
	}
	if cj.Spec.TimeZone != nil {
		if _, err := time.LoadLocation(*cj.Spec.TimeZone); err != nil {
			plan.addEvent(corev1.EventTypeWarning, "UnknownTimeZone", "invalid timeZone: %q: %s", *cj.Spec.TimeZone,
				err)
			return plan
		}
	}
	if cj.Spec.Suspend != nil && *cj.Spec.Suspend {
		return plan
	}
	schedule, err := parse(cj)
	if err != nil {
		plan.addEvent(corev1.EventTypeWarning, "UnparseableSchedule", "unparseable schedule: %q : %s", cj.Spec.Schedule,
			err)
		return plan
	}
	if strings.Contains(cj.Spec.Schedule, "TZ") {
		plan.addEvent(corev1.EventTypeWarning, "UnsupportedSchedule",
			"CRON_TZ or TZ used in schedule %q is not officially supported, see "+
				"https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
			cj.Spec.Schedule)
	}
	next := schedule.Next(in.Now)
	if next.IsZero() {
		plan.addEvent(corev1.EventTypeWarning, "InvalidSchedule",
			"invalid schedule: %s : time difference between two schedules is less than 1 second", cj.Spec.Schedule)
		return plan
	}
	plan.RequeueAfter = next.Sub(in.Now) + 100*time.Millisecond
	at, missed := mostRecentScheduleTime(schedule, earliestTime(in), in.Now)
	if missed > tooManyMissed {
		plan.addEvent(corev1.EventTypeWarning, "TooManyMissedTimes",
			"too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	}
	if !at.IsZero() {
		in.startJob(&plan, at)
	}
	return plan
}

// countActive updates the active list: finished and deleted Jobs leave it; a running Job that is
// not listed gets an event.
func (in In) countActive(plan *Plan) {
	there := map[string]*batchv1.Job{}
	for _, j := range in.Jobs {
		there[string(j.UID)] = j
	}
	active := plan.Status.Active
	plan.Status.Active = nil
	for _, ref := range active {
		j := there[string(ref.UID)]
		if j == nil {
			plan.addEvent(corev1.EventTypeWarning, "MissingJob", "Active job went missing: %v", ref.Name)
			continue
		}
		if how := finishedStatus(j); how != "" {
			plan.addEvent(corev1.EventTypeNormal, "SawCompletedJob", "Saw completed job: %s, condition: %v", j.Name,
				how)
			continue
		}
		plan.Status.Active = append(plan.Status.Active, ref)
	}
	for _, j := range in.Jobs {
		how := finishedStatus(j)
		if isUnlisted(j, active) {
			plan.addEvent(corev1.EventTypeWarning, "UnexpectedJob",
				"Saw a job that the controller did not create or forgot: %s", j.Name)
		}
		if how == batchv1.JobComplete && j.Status.CompletionTime != nil {
			if last := plan.Status.LastSuccessfulTime; last == nil || j.Status.CompletionTime.After(last.Time) {
				plan.Status.LastSuccessfulTime = j.Status.CompletionTime
			}
		}
	}
}

// hasUnlisted tells whether a running Job is not in the list of active ones.
func hasUnlisted(jobs []*batchv1.Job, active []corev1.ObjectReference) bool {
	return slices.ContainsFunc(jobs, func(j *batchv1.Job) bool { return isUnlisted(j, active) })
}

func isUnlisted(j *batchv1.Job, active []corev1.ObjectReference) bool {
	return finishedStatus(j) == "" &&
		!slices.ContainsFunc(active, func(r corev1.ObjectReference) bool { return r.UID == j.UID })
}

// finishedStatus returns the condition with which a Job finished; empty while it runs.
func finishedStatus(j *batchv1.Job) batchv1.JobConditionType {
	if c := jobutil.FinishedCondition(j.Status.Conditions); c != nil {
		return c.Type
	}
	return ""
}

// trimHistory deletes the oldest finished Jobs beyond the history limits.
func (in In) trimHistory(plan *Plan) {
	for _, side := range []struct {
		how   batchv1.JobConditionType
		limit *int32
	}{{batchv1.JobComplete, in.CronJob.Spec.SuccessfulJobsHistoryLimit},
		{batchv1.JobFailed, in.CronJob.Spec.FailedJobsHistoryLimit}} {
		if side.limit == nil {
			continue
		}
		var ended []*batchv1.Job
		for _, j := range in.Jobs {
			if finishedStatus(j) == side.how {
				ended = append(ended, j)
			}
		}
		slices.SortFunc(ended, byStart)
		for _, j := range ended[:max(len(ended)-int(*side.limit), 0)] {
			if j.DeletionTimestamp == nil {
				plan.Delete = append(plan.Delete, j)
			}
		}
	}
}

func byStart(a, b *batchv1.Job) int {
	x, y := a.Status.StartTime, b.Status.StartTime
	switch {
	case x == nil && y != nil:
		return 1
	case x != nil && y == nil:
		return -1
	case x != nil && !x.Equal(y):
		return x.Compare(y.Time)
	}
	return strings.Compare(a.Name, b.Name)
}

// startJob plans the Job of a scheduled time.
func (in In) startJob(plan *Plan, at time.Time) {
	cj := in.CronJob
	if s := cj.Spec.StartingDeadlineSeconds; s != nil && at.Add(time.Duration(*s)*time.Second).Before(in.Now) {
		plan.addEvent(corev1.EventTypeWarning, "MissSchedule", "Missed scheduled time to start a job: %s",
			at.UTC().Format(time.RFC1123Z))
		return
	}
	name := Name(cj, at)
	listed := slices.ContainsFunc(plan.Status.Active, func(r corev1.ObjectReference) bool { return r.Name == name })
	if listed || cj.Status.LastScheduleTime != nil && !cj.Status.LastScheduleTime.Time.Before(at) {
		return
	}
	if len(plan.Status.Active) > 0 {
		switch cj.Spec.ConcurrencyPolicy {
		case batchv1.ForbidConcurrent:
			plan.addEvent(corev1.EventTypeNormal, "JobAlreadyActive",
				"Not starting job because prior execution is running and concurrency policy is Forbid")
			return
		case batchv1.ReplaceConcurrent:
			for _, j := range in.Jobs {
				if slices.ContainsFunc(plan.Status.Active,
					func(r corev1.ObjectReference) bool { return r.UID == j.UID }) {
					plan.Delete = append(plan.Delete, j)
				}
			}
			plan.Status.Active = nil
		}
	}
	plan.Start, plan.At = Job(cj, at), at
}

// Name returns the name of the Job of a scheduled time; it is unique per time.
func Name(cj *batchv1.CronJob, at time.Time) string {
	return fmt.Sprintf("%s-%d", cj.Name, at.Unix()/60)
}

// Job returns the Job of a scheduled time.
func Job(cj *batchv1.CronJob, at time.Time) *batchv1.Job {
	t := cj.Spec.JobTemplate
	j := &batchv1.Job{Spec: *t.Spec.DeepCopy()}
	j.Name, j.Namespace, j.Labels, j.Annotations = Name(cj, at), cj.Namespace, maps.Clone(t.Labels),
		maps.Clone(t.Annotations)
	if j.Annotations == nil {
		j.Annotations = map[string]string{}
	}
	if cj.Spec.TimeZone != nil {
		if zone, err := time.LoadLocation(*cj.Spec.TimeZone); err == nil {
			at = at.In(zone)
		}
	}
	j.Annotations[batchv1.CronJobScheduledTimestampAnnotation] = at.Format(time.RFC3339)
	j.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cj, kind)}
	return j
}

// parse parses the schedule in the CronJob's time zone; a zone inside the schedule has precedence,
// as upstream.
func parse(cj *batchv1.CronJob) (cron.Schedule, error) {
	s := cj.Spec.Schedule
	if cj.Spec.TimeZone != nil && !strings.Contains(s, "TZ") {
		s = "TZ=" + *cj.Spec.TimeZone + " " + s
	}
	return cron.ParseStandard(s)
}

// earliestTime returns when scheduled times start to count: the last used one, or the creation; at
// most startingDeadlineSeconds ago.
func earliestTime(in In) time.Time {
	cj := in.CronJob
	from := cj.CreationTimestamp.Time
	if last := cj.Status.LastScheduleTime; last != nil {
		from = last.Time
	}
	if s := cj.Spec.StartingDeadlineSeconds; s != nil {
		if back := in.Now.Add(-pod.Seconds(*s)); back.After(from) {
			return back
		}
	}
	return from
}

// mostRecentScheduleTime returns the last scheduled time after from and not after now, and how many
// there were; zero if none. It bisects long intervals, so that a CronJob suspended for years costs
// no more than one suspended for minutes.
func mostRecentScheduleTime(s cron.Schedule, from, now time.Time) (at time.Time, n int) {
	for {
		t := s.Next(from)
		if t.IsZero() || t.After(now) {
			return at, n
		}
		at, from = t, t
		if n++; n > tooManyMissed {
			if middle := from.Add(now.Sub(from) / 2); !s.Next(middle).After(now) {
				from = middle
			}
		}
	}
}
