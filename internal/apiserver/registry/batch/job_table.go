package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func jobColumns() []metav1.TableColumnDefinition {
	spec, status := batchv1.JobSpec{}.SwaggerDoc(), batchv1.JobStatus{}.SwaggerDoc()
	return append([]metav1.TableColumnDefinition{
		printers.NameColumn(), printers.StringColumn("Status", "Status of the job."),
		printers.StringColumn("Completions", status["succeeded"]),
		printers.StringColumn("Duration", "Time required to complete the job."), printers.AgeColumn(),
	}, printers.TemplateColumns(spec["selector"])...)
}

func jobRow(j *batchv1.Job, o resourcedef.RowOptions) []any {
	completions := fmt.Sprintf("%d/1", j.Status.Succeeded)
	switch p := typed.Deref(j.Spec.Parallelism); {
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
	names, images := printers.LayoutContainerCells(j.Spec.Template.Spec.Containers)
	return []any{j.Name, jobState(j), completions, took, printers.TimestampSince(j.CreationTimestamp, o.Now), names,
		images, printers.FormatLabelSelector(j.Spec.Selector)}
}

func jobState(j *batchv1.Job) string {
	switch {
	case hasCondition(j, batchv1.JobComplete):
		return "Complete"
	case hasCondition(j, batchv1.JobFailed):
		return "Failed"
	case j.DeletionTimestamp != nil:
		return "Terminating"
	case hasCondition(j, batchv1.JobSuspended):
		return "Suspended"
	case hasCondition(j, batchv1.JobFailureTarget):
		return "FailureTarget"
	case hasCondition(j, batchv1.JobSuccessCriteriaMet):
		return "SuccessCriteriaMet"
	}
	return "Running"
}
