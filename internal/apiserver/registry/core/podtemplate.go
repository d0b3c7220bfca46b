package core

import (
	"context"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/template"
)

func podTemplates() kind.Kind {
	validate := func(_ context.Context, o runtime.Object) field.ErrorList {
		return template.ValidatePodTemplateSpec(&o.(*v1.PodTemplate).Template, field.NewPath("template"))
	}
	return kind.Kind{
		Version: "v1", Resource: "podtemplates", Singular: "podtemplate", Kind: "PodTemplate",
		Types: types[v1.PodTemplate, v1.PodTemplateList](),
		Rules: kind.Rules{
			Default: func(o runtime.Object) { template.DefaultPodTemplate(&o.(*v1.PodTemplate).Template) },
			PrepareCreate: func(_ context.Context, o runtime.Object) {
				p := o.(*v1.PodTemplate)
				p.Generation = 1
				template.DropDisabledTemplate(&p.Template, nil)
			},
			PrepareUpdate: func(_ context.Context, o, old runtime.Object) {
				p, was := o.(*v1.PodTemplate), old.(*v1.PodTemplate)
				template.DropDisabledTemplate(&p.Template, &was.Template)
				p.Generation = was.Generation
				if !apiequality.Semantic.DeepEqual(p.Template, was.Template) {
					p.Generation++
				}
			},
			Validate:       validate,
			ValidateUpdate: func(ctx context.Context, o, _ runtime.Object) field.ErrorList { return validate(ctx, o) },
			Warn: func(_ context.Context, o runtime.Object) []string {
				t := &o.(*v1.PodTemplate).Template
				return template.Warnings(&t.Spec, t.Annotations, field.NewPath("template"))
			},
			AllowUnconditionalUpdate: true,
		},
		Table: kind.Table{
			Columns: []metav1.TableColumnDefinition{
				column.Name(), column.Def("Containers", "Names of each container in the template."),
				column.Def("Images", "Images referenced by each container in the template."), column.Def("Pod Labels", "The labels for the pod template."),
			},
			Row: row(func(p *v1.PodTemplate, _ kind.RowOptions) []any {
				names, images := column.Containers(p.Template.Spec.Containers)
				return []any{p.Name, names, images, column.Labels(p.Template.Labels)}
			}),
		},
	}
}
