package core

import (
	"context"
	"strconv"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/template"
)

func replicationControllers() kind.Kind {
	t := types[v1.ReplicationController, v1.ReplicationControllerList]()
	t.HasStatus = true
	return kind.Kind{
		Version: "v1", Resource: "replicationcontrollers", Singular: "replicationcontroller", Kind: "ReplicationController",
		Names: kind.Names{Short: []string{"rc"}, Categories: []string{"all"}},
		Types: t,
		Rules: kind.Rules{
			Default: func(o runtime.Object) { defaultController(o.(*v1.ReplicationController)) },
			PrepareCreate: func(_ context.Context, o runtime.Object) {
				rc := o.(*v1.ReplicationController)
				rc.Status, rc.Generation = v1.ReplicationControllerStatus{}, 1
				template.DropDisabledTemplate(rc.Spec.Template, nil)
			},
			PrepareUpdate: func(_ context.Context, o, old runtime.Object) {
				rc, was := o.(*v1.ReplicationController), old.(*v1.ReplicationController)
				template.DropDisabledTemplate(rc.Spec.Template, was.Spec.Template)
				rc.Generation = was.Generation
				if !apiequality.Semantic.DeepEqual(rc.Spec, was.Spec) {
					rc.Generation++
				}
			},
			Validate: func(_ context.Context, o runtime.Object) field.ErrorList {
				return validateController(o.(*v1.ReplicationController), nil)
			},
			ValidateUpdate: func(_ context.Context, o, old runtime.Object) field.ErrorList {
				return validateController(o.(*v1.ReplicationController), old.(*v1.ReplicationController))
			},
			ValidateStatus: func(_ context.Context, o, old runtime.Object) field.ErrorList {
				return validateControllerStatus(o.(*v1.ReplicationController), old.(*v1.ReplicationController))
			},
			Warn: func(_ context.Context, o runtime.Object) []string {
				t := o.(*v1.ReplicationController).Spec.Template
				if t == nil {
					return nil
				}
				return template.Warnings(&t.Spec, t.Annotations, field.NewPath("spec", "template"))
			},
			Fields: func(o runtime.Object) fields.Set {
				rc := o.(*v1.ReplicationController)
				return fields.Set{"name": rc.Name, "status.replicas": strconv.Itoa(int(rc.Status.Replicas))}
			},
			AllowUnconditionalUpdate: true,
		},
		Table: kind.Table{Columns: controllerColumns(), Row: row(controllerRow)},
	}
}

// defaultController takes selector and labels from the template where they are left out.
func defaultController(rc *v1.ReplicationController) {
	if t := rc.Spec.Template; t != nil {
		template.DefaultPodTemplate(t)
		if t.Labels != nil {
			if len(rc.Spec.Selector) == 0 {
				rc.Spec.Selector = t.Labels
			}
			if len(rc.Labels) == 0 {
				rc.Labels = t.Labels
			}
		}
	}
	if rc.Spec.Replicas == nil {
		rc.Spec.Replicas = new(int32(1))
	}
}

func controllerColumns() []metav1.TableColumnDefinition {
	spec, status := v1.ReplicationControllerSpec{}.SwaggerDoc(), v1.ReplicationControllerStatus{}.SwaggerDoc()
	return append([]metav1.TableColumnDefinition{
		column.Name(), column.Int("Desired", spec["replicas"]), column.Int("Current", status["replicas"]), column.Int("Ready", status["readyReplicas"]), column.Age(),
	}, column.Wide(
		column.Def("Containers", "Names of each container in the template."), column.Def("Images", "Images referenced by each container in the template."),
		column.Def("Selector", spec["selector"]),
	)...)
}

func controllerRow(rc *v1.ReplicationController, opt kind.RowOptions) []any {
	desired := int64(0)
	if rc.Spec.Replicas != nil {
		desired = int64(*rc.Spec.Replicas)
	}
	var names, images string
	if rc.Spec.Template != nil {
		names, images = column.Containers(rc.Spec.Template.Spec.Containers)
	}
	return []any{
		rc.Name, desired, int64(rc.Status.Replicas), int64(rc.Status.ReadyReplicas), column.Since(rc.CreationTimestamp, opt.Now),
		names, images, column.Labels(rc.Spec.Selector),
	}
}
