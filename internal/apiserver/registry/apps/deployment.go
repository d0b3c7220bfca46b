package apps

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
	"github.com/gantry-project/gantry/internal/apiserver/registry/template"
)

func deployments() kind.Kind {
	k := names("deployments", "deployment", "Deployment", "deploy")
	k.Types = row.InNamespace[appsv1.Deployment, appsv1.DeploymentList]()
	k.Types.HasStatus = true
	k.Rules = row.Rules[appsv1.Deployment]{
		Default: defaultDeployment,
		Create:  dropDeployment,
		Update: func(d, was *appsv1.Deployment) {
			template.DropDisabledTemplate(&d.Spec.Template, &was.Spec.Template)
			// Annotations are copied to ReplicaSets, so a change of them counts.
			if !apiequality.Semantic.DeepEqual(d.Spec, was.Spec) || !apiequality.Semantic.DeepEqual(d.Annotations, was.Annotations) {
				d.Generation = was.Generation + 1
			}
		},
		Check:         checkDeployment,
		Status:        func(d, was *appsv1.Deployment) { d.Labels = was.Labels },
		CheckStatus:   checkDeploymentStatus,
		Warn:          func(d *appsv1.Deployment) []string { return append(warnName(d.Name), warn(&d.Spec.Template)...) },
		Unconditional: true,
	}.Rules()
	k.Table = kind.Table{Columns: deploymentColumns(), Row: row.Cells(deploymentRow)}
	return k
}

func defaultDeployment(d *appsv1.Deployment) {
	s := &d.Spec
	template.DefaultPodTemplate(&s.Template)
	row.OrElse(&s.Replicas, 1)
	row.OrText(&s.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if s.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		row.OrElse(&s.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		row.OrElse(&s.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		row.OrElse(&s.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
	row.OrElse(&s.RevisionHistoryLimit, 10)
	row.OrElse(&s.ProgressDeadlineSeconds, 600)
}

func deploymentColumns() []metav1.TableColumnDefinition {
	spec, status := appsv1.DeploymentSpec{}.SwaggerDoc(), appsv1.DeploymentStatus{}.SwaggerDoc()
	return append([]metav1.TableColumnDefinition{
		column.Name(), column.Def("Ready", "Number of the pod with ready state"),
		column.Def("Up-to-date", status["updatedReplicas"]), column.Def("Available", status["availableReplicas"]), column.Age(),
	}, templateColumns(spec["selector"])...)
}

func deploymentRow(d *appsv1.Deployment, o kind.RowOptions) []any {
	names, images := column.Containers(d.Spec.Template.Spec.Containers)
	return []any{
		d.Name, fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, row.Value(d.Spec.Replicas)), int64(d.Status.UpdatedReplicas), int64(d.Status.AvailableReplicas),
		column.Since(d.CreationTimestamp, o.Now), names, images, column.Selector(d.Spec.Selector),
	}
}
