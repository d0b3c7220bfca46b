package core

import (
	"context"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func podTemplates() resourcedef.Kind {
	validate := func(_ context.Context, o runtime.Object) field.ErrorList {
		return podspec.ValidatePodTemplateSpec(&o.(*v1.PodTemplate).Template, field.NewPath("template"))
	}
	return resourcedef.Kind{
		Version: "v1", Resource: "podtemplates", Singular: "podtemplate", Kind: "PodTemplate",
		Types: typed.NewNamespacedTypes[v1.PodTemplate, v1.PodTemplateList](),
		Rules: resourcedef.Rules{
			Default: func(o runtime.Object) { podspec.DefaultPodTemplate(&o.(*v1.PodTemplate).Template) },
			PrepareCreate: func(_ context.Context, o runtime.Object) {
				p := o.(*v1.PodTemplate)
				p.Generation = 1
				podspec.DropDisabledTemplate(&p.Template, nil)
			},
			PrepareUpdate: func(_ context.Context, o, old runtime.Object) {
				p, previous := o.(*v1.PodTemplate), old.(*v1.PodTemplate)
				podspec.DropDisabledTemplate(&p.Template, &previous.Template)
				p.Generation = previous.Generation
				if !apiequality.Semantic.DeepEqual(p.Template, previous.Template) {
					p.Generation++
				}
			},
			Validate:       validate,
			ValidateUpdate: func(ctx context.Context, o, _ runtime.Object) field.ErrorList { return validate(ctx, o) },
			Warn: func(_ context.Context, o runtime.Object) []string {
				t := &o.(*v1.PodTemplate).Template
				return podspec.Warnings(&t.Spec, t.Annotations, field.NewPath("template"))
			},
			AllowUnconditionalUpdate: true,
		},
		Table: resourcedef.Table{
			Columns: []metav1.TableColumnDefinition{
				printers.NameColumn(), printers.StringColumn("Containers", "Names of each container in the template."),
				printers.StringColumn("Images", "Images referenced by each container in the template."),
				printers.StringColumn("Pod Labels", "The labels for the pod template."),
			},
			Row: typed.RowFunc(func(p *v1.PodTemplate, _ resourcedef.RowOptions) []any {
				names, images := printers.LayoutContainerCells(p.Template.Spec.Containers)
				return []any{p.Name, names, images, printers.FormatLabels(p.Template.Labels)}
			}),
		},
	}
}
