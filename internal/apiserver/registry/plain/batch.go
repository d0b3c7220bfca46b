package plain

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/template"
)

// Batch are the rows of batch/v1.
func Batch() []kind.Kind { return []kind.Kind{jobs(), cronJobs()} }

func jobs() kind.Kind {
	k := kind.Kind{
		Group: batchv1.GroupName, Version: "v1", Resource: "jobs", Singular: "job", Kind: "Job",
		Names: kind.Names{Categories: []string{"all"}},
		Types: types[batchv1.Job, batchv1.JobList](),
		Rules: kind.Rules{
			Default:                  func(o runtime.Object) { defaultJob(o.(*batchv1.Job)) },
			PrepareCreate:            func(_ context.Context, o runtime.Object) { generateSelector(o.(*batchv1.Job)) },
			AllowUnconditionalUpdate: true,
			Fields: func(o runtime.Object) fields.Set {
				return fields.Set{"status.successful": fmt.Sprint(o.(*batchv1.Job).Status.Succeeded)}
			},
		},
	}
	k.Types.Namespaced, k.Types.HasStatus = true, true
	spec, status := batchv1.JobSpec{}.SwaggerDoc(), batchv1.JobStatus{}.SwaggerDoc()
	k.Table = kind.Table{
		Columns: append([]metav1.TableColumnDefinition{
			column.Name(), column.Def("Status", "Status of the job."), column.Def("Completions", status["succeeded"]),
			column.Def("Duration", "Time required to complete the job."), column.Age(),
		}, templateColumns(spec["selector"])...),
		Row: row(jobRow),
	}
	return k
}

func jobRow(j *batchv1.Job, o kind.RowOptions) []any {
	completions := fmt.Sprintf("%d/1", j.Status.Succeeded)
	switch p := number(j.Spec.Parallelism); {
	case j.Spec.Completions != nil:
		completions = fmt.Sprintf("%d/%d", j.Status.Succeeded, *j.Spec.Completions)
	case p > 1:
		completions = fmt.Sprintf("%d/1 of %d", j.Status.Succeeded, p)
	}
	took := ""
	switch s := j.Status; {
	case s.StartTime == nil:
	case s.CompletionTime == nil:
		took = duration.HumanDuration(o.Now.Sub(s.StartTime.Time))
	default:
		took = duration.HumanDuration(s.CompletionTime.Sub(s.StartTime.Time))
	}
	names, images := column.Containers(j.Spec.Template.Spec.Containers)
	return []any{j.Name, jobState(j), completions, took, column.Since(j.CreationTimestamp, o.Now), names, images, column.Selector(j.Spec.Selector)}
}

func jobState(j *batchv1.Job) string {
	has := func(t batchv1.JobConditionType) bool {
		for _, c := range j.Status.Conditions {
			if c.Type == t {
				return c.Status == corev1.ConditionTrue
			}
		}
		return false
	}
	switch {
	case has(batchv1.JobComplete):
		return "Complete"
	case has(batchv1.JobFailed):
		return "Failed"
	case j.DeletionTimestamp != nil:
		return "Terminating"
	case has(batchv1.JobSuspended):
		return "Suspended"
	case has(batchv1.JobFailureTarget):
		return "FailureTarget"
	case has(batchv1.JobSuccessCriteriaMet):
		return "SuccessCriteriaMet"
	}
	return "Running"
}

func defaultJob(j *batchv1.Job) {
	s := &j.Spec
	template.DefaultPodTemplate(&s.Template)
	if s.Completions == nil && s.Parallelism == nil {
		s.Completions = new(int32(1))
	}
	orElse(&s.Parallelism, 1)
	if s.BackoffLimitPerIndex != nil {
		orElse(&s.BackoffLimit, 1<<31-1)
	}
	orElse(&s.BackoffLimit, 6)
	if len(j.Labels) == 0 {
		j.Labels = s.Template.Labels
	}
	orElse(&s.CompletionMode, batchv1.NonIndexedCompletion)
	orElse(&s.Suspend, false)
	orElse(&s.ManualSelector, false)
	if s.PodFailurePolicy != nil {
		for i := range s.PodFailurePolicy.Rules {
			r := &s.PodFailurePolicy.Rules[i]
			for c := range r.OnPodConditions {
				orText(&r.OnPodConditions[c].Status, corev1.ConditionTrue)
			}
		}
		orElse(&s.PodReplacementPolicy, batchv1.Failed)
	}
	orElse(&s.PodReplacementPolicy, batchv1.TerminatingOrFailed)
}

// generateSelector gives a Job that does not choose its Pods itself labels that nobody else has.
func generateSelector(j *batchv1.Job) {
	s := &j.Spec
	if s.ManualSelector != nil && *s.ManualSelector {
		return
	}
	l := s.Template.Labels
	if l == nil {
		l = map[string]string{}
	}
	uid := string(j.UID)
	for _, kv := range [][2]string{
		{batchv1.ControllerUidLabel, uid}, {"controller-uid", uid}, {batchv1.JobNameLabel, j.Name}, {"job-name", j.Name},
	} {
		l[kv[0]] = kv[1]
	}
	s.Template.Labels = l
	if s.Selector == nil {
		s.Selector = &metav1.LabelSelector{}
	}
	if s.Selector.MatchLabels == nil {
		s.Selector.MatchLabels = map[string]string{}
	}
	if _, ok := s.Selector.MatchLabels[batchv1.ControllerUidLabel]; !ok {
		s.Selector.MatchLabels[batchv1.ControllerUidLabel] = uid
	}
}

func cronJobs() kind.Kind {
	k := kind.Kind{
		Group: batchv1.GroupName, Version: "v1", Resource: "cronjobs", Singular: "cronjob", Kind: "CronJob",
		Names: kind.Names{Short: []string{"cj"}, Categories: []string{"all"}},
		Types: types[batchv1.CronJob, batchv1.CronJobList](),
		Rules: kind.Rules{
			Default:                  func(o runtime.Object) { defaultCronJob(o.(*batchv1.CronJob)) },
			AllowUnconditionalUpdate: true,
		},
	}
	k.Types.Namespaced, k.Types.HasStatus = true, true
	spec, status := batchv1.CronJobSpec{}.SwaggerDoc(), batchv1.CronJobStatus{}.SwaggerDoc()
	k.Table = kind.Table{
		Columns: append([]metav1.TableColumnDefinition{
			column.Name(), column.Def("Schedule", spec["schedule"]), column.Def("Timezone", spec["timeZone"]),
			{Name: "Suspend", Type: "boolean", Description: spec["suspend"]}, column.Int("Active", status["active"]),
			column.Def("Last Schedule", status["lastScheduleTime"]), column.Age(),
		}, templateColumns(batchv1.JobSpec{}.SwaggerDoc()["selector"])...),
		Row: row(func(c *batchv1.CronJob, o kind.RowOptions) []any {
			names, images := column.Containers(c.Spec.JobTemplate.Spec.Template.Spec.Containers)
			last, zone, suspended := "<none>", "<none>", "False"
			if c.Status.LastScheduleTime != nil {
				last = column.Since(*c.Status.LastScheduleTime, o.Now)
			}
			if c.Spec.TimeZone != nil {
				zone = *c.Spec.TimeZone
			}
			if c.Spec.Suspend != nil && *c.Spec.Suspend {
				suspended = "True"
			}
			return []any{
				c.Name, c.Spec.Schedule, zone, suspended, int64(len(c.Status.Active)), last, column.Since(c.CreationTimestamp, o.Now),
				names, images, column.Selector(c.Spec.JobTemplate.Spec.Selector),
			}
		}),
	}
	return k
}

func defaultCronJob(c *batchv1.CronJob) {
	s := &c.Spec
	template.DefaultPodTemplate(&s.JobTemplate.Spec.Template)
	orText(&s.ConcurrencyPolicy, batchv1.AllowConcurrent)
	orElse(&s.Suspend, false)
	orElse(&s.SuccessfulJobsHistoryLimit, 3)
	orElse(&s.FailedJobsHistoryLimit, 1)
}
