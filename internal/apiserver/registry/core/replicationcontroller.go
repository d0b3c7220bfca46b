package core

import (
	"context"
	"strconv"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func replicationControllers() resourcedef.Kind {
	t := typed.NewNamespacedTypes[v1.ReplicationController, v1.ReplicationControllerList]()
	t.HasStatus = true
	return resourcedef.Kind{
		Version: "v1", Resource: "replicationcontrollers", Singular: "replicationcontroller",
		Kind:  "ReplicationController",
		Names: resourcedef.Names{Short: []string{"rc"}, Categories: []string{"all"}},
		Types: t,
		Rules: typed.Rules[v1.ReplicationController]{
			Default: defaultController,
			PrepareForCreate: func(_ context.Context, rc *v1.ReplicationController) {
				rc.Status, rc.Generation = v1.ReplicationControllerStatus{}, 1
				podspec.DropDisabledTemplate(rc.Spec.Template, nil)
			},
			PrepareForUpdate: func(rc, old *v1.ReplicationController) {
				podspec.DropDisabledTemplate(rc.Spec.Template, old.Spec.Template)
				rc.Generation = old.Generation
				if !apiequality.Semantic.DeepEqual(rc.Spec, old.Spec) {
					rc.Generation++
				}
			},
			Validate:       validateController,
			ValidateStatus: validateControllerStatus,
			Warn:           warnController,
			// as v1.37.2, which warns about the stored template
			WarnUpdate: func(rc, old *v1.ReplicationController) []string {
				if rc.Generation == old.Generation {
					return nil
				}
				return warnController(old)
			},
			SelectableFields: func(rc *v1.ReplicationController) fields.Set {
				return fields.Set{"name": rc.Name, "status.replicas": strconv.Itoa(int(rc.Status.Replicas))}
			},
			AllowUnconditionalUpdate: true,
		}.Untyped(),
		Table: resourcedef.Table{Columns: controllerColumns(), Row: typed.RowFunc(controllerRow)},
	}
}

func warnController(rc *v1.ReplicationController) []string {
	t := rc.Spec.Template
	if t == nil {
		return nil
	}
	return podspec.Warnings(&t.Spec, t.Annotations, field.NewPath("spec", "template"))
}

// defaultController takes selector and labels from the template where they are left out.
func defaultController(rc *v1.ReplicationController) {
	if t := rc.Spec.Template; t != nil {
		podspec.DefaultPodTemplate(t)
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
		printers.NameColumn(), printers.IntColumn("Desired", spec["replicas"]),
		printers.IntColumn("Current", status["replicas"]), printers.IntColumn("Ready", status["readyReplicas"]),
		printers.AgeColumn(),
	}, printers.WideColumns(
		printers.StringColumn("Containers", "Names of each container in the template."),
		printers.StringColumn("Images", "Images referenced by each container in the template."),
		printers.StringColumn("Selector", spec["selector"]),
	)...)
}

func controllerRow(rc *v1.ReplicationController, opt resourcedef.RowOptions) []any {
	desired := int64(0)
	if rc.Spec.Replicas != nil {
		desired = int64(*rc.Spec.Replicas)
	}
	var names, images string
	if rc.Spec.Template != nil {
		names, images = printers.LayoutContainerCells(rc.Spec.Template.Spec.Containers)
	}
	return []any{
		rc.Name, desired, int64(rc.Status.Replicas), int64(rc.Status.ReadyReplicas),
		printers.TimestampSince(rc.CreationTimestamp, opt.Now),
		names, images, printers.FormatLabels(rc.Spec.Selector),
	}
}
