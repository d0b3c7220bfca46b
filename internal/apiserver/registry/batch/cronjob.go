package batch

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
	"github.com/gantry-project/gantry/internal/apiserver/registry/template"
)

func cronJobs() kind.Kind {
	k := kind.Kind{
		Group: batchv1.GroupName, Version: "v1", Resource: "cronjobs", Singular: "cronjob", Kind: "CronJob",
		Names: kind.Names{Short: []string{"cj"}, Categories: []string{"all"}},
		Types: row.InNamespace[batchv1.CronJob, batchv1.CronJobList](),
		Rules: row.Rules[batchv1.CronJob]{
			Default: defaultCronJob,
			Create: func(_ context.Context, c *batchv1.CronJob) {
				template.DropDisabledTemplate(&c.Spec.JobTemplate.Spec.Template, nil)
			},
			Update: func(c, was *batchv1.CronJob) {
				template.DropDisabledTemplate(&c.Spec.JobTemplate.Spec.Template, &was.Spec.JobTemplate.Spec.Template)
			},
			Check:         checkCronJob,
			Warn:          warnCronJob,
			Unconditional: true,
		}.Rules(),
		Table: kind.Table{Columns: cronJobColumns(), Row: row.Cells(cronJobRow)},
	}
	k.Types.HasStatus = true
	return k
}

func defaultCronJob(c *batchv1.CronJob) {
	s := &c.Spec
	template.DefaultPodTemplate(&s.JobTemplate.Spec.Template)
	defaultFailurePolicy(s.JobTemplate.Spec.PodFailurePolicy)
	row.OrText(&s.ConcurrencyPolicy, batchv1.AllowConcurrent)
	row.OrElse(&s.Suspend, false)
	row.OrElse(&s.SuccessfulJobsHistoryLimit, 3)
	row.OrElse(&s.FailedJobsHistoryLimit, 1)
}

func warnCronJob(c *batchv1.CronJob) []string {
	t := &c.Spec.JobTemplate.Spec.Template
	return append(warnName(c.Name), template.Warnings(&t.Spec, t.Annotations, spec().Child("jobTemplate", "spec", "template"))...)
}

func cronJobColumns() []metav1.TableColumnDefinition {
	spec, status := batchv1.CronJobSpec{}.SwaggerDoc(), batchv1.CronJobStatus{}.SwaggerDoc()
	return append([]metav1.TableColumnDefinition{
		column.Name(), column.Def("Schedule", spec["schedule"]), column.Def("Timezone", spec["timeZone"]),
		{Name: "Suspend", Type: "boolean", Description: spec["suspend"]}, column.Int("Active", status["active"]),
		column.Def("Last Schedule", status["lastScheduleTime"]), column.Age(),
	}, templateColumns(batchv1.JobSpec{}.SwaggerDoc()["selector"])...)
}

func cronJobRow(c *batchv1.CronJob, o kind.RowOptions) []any {
	names, images := column.Containers(c.Spec.JobTemplate.Spec.Template.Spec.Containers)
	last, zone, suspended := "<none>", "<none>", "False"
	if c.Status.LastScheduleTime != nil {
		last = column.Since(*c.Status.LastScheduleTime, o.Now)
	}
	if c.Spec.TimeZone != nil {
		zone = *c.Spec.TimeZone
	}
	if row.Value(c.Spec.Suspend) {
		suspended = "True"
	}
	return []any{
		c.Name, c.Spec.Schedule, zone, suspended, int64(len(c.Status.Active)), last, column.Since(c.CreationTimestamp, o.Now),
		names, images, column.Selector(c.Spec.JobTemplate.Spec.Selector),
	}
}
