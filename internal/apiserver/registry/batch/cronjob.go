package batch

import (
	"context"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func cronJobs() resourcedef.Kind {
	k := resourcedef.Kind{
		Group: batchv1.GroupName, Version: "v1", Resource: "cronjobs", Singular: "cronjob", Kind: "CronJob",
		Names: resourcedef.Names{Short: []string{"cj"}, Categories: []string{"all"}},
		Types: typed.NewNamespacedTypes[batchv1.CronJob, batchv1.CronJobList](),
		Rules: typed.Rules[batchv1.CronJob]{
			Default: defaultCronJob,
			PrepareForCreate: func(_ context.Context, c *batchv1.CronJob) {
				podspec.DropDisabledTemplate(&c.Spec.JobTemplate.Spec.Template, nil)
				dropScheduling(&c.Spec.JobTemplate.Spec, nil)
			},
			PrepareForUpdate: func(c, previous *batchv1.CronJob) {
				podspec.DropDisabledTemplate(&c.Spec.JobTemplate.Spec.Template,
					&previous.Spec.JobTemplate.Spec.Template)
				dropScheduling(&c.Spec.JobTemplate.Spec, &previous.Spec.JobTemplate.Spec)
			},
			Validate: checkCronJob,
			Warn: func(c *batchv1.CronJob) []string {
				return append(podspec.WarnWorkloadName(c.Name), warnSpec(&c.Spec.JobTemplate.Spec, jobPath())...)
			},
			WarnUpdate:               warnChangedCronJob,
			AllowUnconditionalUpdate: true,
		}.Untyped(),
		Table: resourcedef.Table{Columns: cronJobColumns(), Row: typed.RowFunc(cronJobRow)},
	}
	k.Types.HasStatus = true
	return k
}

func defaultCronJob(c *batchv1.CronJob) {
	s := &c.Spec
	podspec.DefaultPodTemplate(&s.JobTemplate.Spec.Template)
	defaultFailurePolicy(s.JobTemplate.Spec.PodFailurePolicy)
	typed.SetDefaultString(&s.ConcurrencyPolicy, batchv1.AllowConcurrent)
	typed.SetDefault(&s.Suspend, false)
	typed.SetDefault(&s.SuccessfulJobsHistoryLimit, 3)
	typed.SetDefault(&s.FailedJobsHistoryLimit, 1)
}

func jobPath() *field.Path { return spec().Child("jobTemplate", "spec") }

// warnChangedCronJob tells of a changed template, and of a time zone in the schedule, which a new
// CronJob may not have; the path is upstream's.
func warnChangedCronJob(c, previous *batchv1.CronJob) []string {
	var out []string
	if c.Generation != previous.Generation {
		out = warnSpec(&c.Spec.JobTemplate.Spec, jobPath())
	}
	if strings.Contains(c.Spec.Schedule, "TZ") {
		out = append(out, "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "+
			"https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
	}
	return out
}

func cronJobColumns() []metav1.TableColumnDefinition {
	spec, status := batchv1.CronJobSpec{}.SwaggerDoc(), batchv1.CronJobStatus{}.SwaggerDoc()
	return append([]metav1.TableColumnDefinition{
		printers.NameColumn(), printers.StringColumn("Schedule", spec["schedule"]),
		printers.StringColumn("Timezone", spec["timeZone"]),
		{Name: "Suspend", Type: "boolean", Description: spec["suspend"]},
		printers.IntColumn("Active", status["active"]),
		printers.StringColumn("Last Schedule", status["lastScheduleTime"]), printers.AgeColumn(),
	}, printers.TemplateColumns(batchv1.JobSpec{}.SwaggerDoc()["selector"])...)
}

func cronJobRow(c *batchv1.CronJob, o resourcedef.RowOptions) []any {
	names, images := printers.LayoutContainerCells(c.Spec.JobTemplate.Spec.Template.Spec.Containers)
	last, zone, suspended := "<none>", "<none>", "False"
	if c.Status.LastScheduleTime != nil {
		last = printers.TimestampSince(*c.Status.LastScheduleTime, o.Now)
	}
	if c.Spec.TimeZone != nil {
		zone = *c.Spec.TimeZone
	}
	if typed.Deref(c.Spec.Suspend) {
		suspended = "True"
	}
	return []any{
		c.Name, c.Spec.Schedule, zone, suspended, int64(len(c.Status.Active)), last,
		printers.TimestampSince(c.CreationTimestamp, o.Now),
		names, images, printers.FormatLabelSelector(c.Spec.JobTemplate.Spec.Selector),
	}
}
