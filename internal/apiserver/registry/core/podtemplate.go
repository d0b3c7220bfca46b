package core

import (
	"context"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func podTemplates() resourcedef.Kind {
	return resourcedef.Kind{
		Version: "v1", Resource: "podtemplates", Singular: "podtemplate", Kind: "PodTemplate",
		Types: typed.NewNamespacedTypes[v1.PodTemplate, v1.PodTemplateList](),
		Rules: typed.Rules[v1.PodTemplate]{
			Default: func(p *v1.PodTemplate) { podspec.DefaultPodTemplate(&p.Template) },
			PrepareForCreate: func(_ context.Context, p *v1.PodTemplate) {
				p.Generation = 1
				podspec.DropDisabledTemplate(&p.Template, nil)
			},
			PrepareForUpdate: func(p, old *v1.PodTemplate) {
				podspec.DropDisabledTemplate(&p.Template, &old.Template)
				p.Generation = old.Generation
				if !apiequality.Semantic.DeepEqual(p.Template, old.Template) {
					p.Generation++
				}
			},
			Validate: func(p, _ *v1.PodTemplate) field.ErrorList {
				return podspec.ValidatePodTemplateSpec(&p.Template, field.NewPath("template"))
			},
			Warn: func(p *v1.PodTemplate) []string {
				return podspec.Warnings(&p.Template.Spec, p.Template.Annotations, field.NewPath("template"))
			},
			AllowUnconditionalUpdate: true,
		}.Untyped(),
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
