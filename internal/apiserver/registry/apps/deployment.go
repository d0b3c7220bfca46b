package apps

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func deployments() resourcedef.Kind {
	k := newKind("deployments", "deployment", "Deployment", "deploy")
	k.Types = typed.NewNamespacedTypes[appsv1.Deployment, appsv1.DeploymentList]()
	k.Types.HasStatus = true
	k.Types.StatusResetFields = []string{"metadata.labels"}
	k.Rules = typed.Rules[appsv1.Deployment]{
		Default:          defaultDeployment,
		PrepareForCreate: dropDeployment,
		PrepareForUpdate: func(d, previous *appsv1.Deployment) {
			podspec.DropDisabledTemplate(&d.Spec.Template, &previous.Spec.Template)
			// Annotations are copied to ReplicaSets, so a change of them counts.
			if !apiequality.Semantic.DeepEqual(d.Spec, previous.Spec) || !apiequality.Semantic.DeepEqual(d.Annotations,
				previous.Annotations) {
				d.Generation = previous.Generation + 1
			}
		},
		Validate:               checkDeployment,
		PrepareForStatusUpdate: func(d, previous *appsv1.Deployment) { d.Labels = previous.Labels },
		ValidateStatus:         checkDeploymentStatus,
		Warn: func(d *appsv1.Deployment) []string {
			return append(podspec.WarnWorkloadName(d.Name), warn(&d.Spec.Template)...)
		},
		WarnUpdate: func(d, previous *appsv1.Deployment) []string {
			return warnChanged(&d.Spec.Template, d.Generation, previous.Generation)
		},
		AllowUnconditionalUpdate: true,
	}.Untyped()
	k.Table = resourcedef.Table{Columns: deploymentColumns(), Row: typed.RowFunc(deploymentRow)}
	return k
}

func defaultDeployment(d *appsv1.Deployment) {
	s := &d.Spec
	podspec.DefaultPodTemplate(&s.Template)
	typed.SetDefault(&s.Replicas, 1)
	typed.SetDefaultString(&s.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if s.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		typed.SetDefault(&s.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		typed.SetDefault(&s.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		typed.SetDefault(&s.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
	typed.SetDefault(&s.RevisionHistoryLimit, 10)
	typed.SetDefault(&s.ProgressDeadlineSeconds, 600)
}

func deploymentColumns() []metav1.TableColumnDefinition {
	spec, status := appsv1.DeploymentSpec{}.SwaggerDoc(), appsv1.DeploymentStatus{}.SwaggerDoc()
	return append([]metav1.TableColumnDefinition{
		printers.NameColumn(), printers.StringColumn("Ready", "Number of the pod with ready state"),
		printers.StringColumn("Up-to-date", status["updatedReplicas"]),
		printers.StringColumn("Available", status["availableReplicas"]), printers.AgeColumn(),
	}, printers.TemplateColumns(spec["selector"])...)
}

func deploymentRow(d *appsv1.Deployment, o resourcedef.RowOptions) []any {
	names, images := printers.LayoutContainerCells(d.Spec.Template.Spec.Containers)
	return []any{
		d.Name, fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, typed.Deref(d.Spec.Replicas)),
		int64(d.Status.UpdatedReplicas), int64(d.Status.AvailableReplicas),
		printers.TimestampSince(d.CreationTimestamp, o.Now), names, images,
		printers.FormatLabelSelector(d.Spec.Selector),
	}
}
