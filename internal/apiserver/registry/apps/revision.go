package apps

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
)

func controllerRevisions() kind.Kind {
	k := names("controllerrevisions", "controllerrevision", "ControllerRevision")
	k.Names.Categories = nil
	k.Types = row.InNamespace[appsv1.ControllerRevision, appsv1.ControllerRevisionList]()
	k.Types.NoGenerate = true
	k.Rules = row.Rules[appsv1.ControllerRevision]{Check: checkRevision, Unconditional: true}.Rules()
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Def("Controller", "Controller of the object"),
			column.Def("Revision", appsv1.ControllerRevision{}.SwaggerDoc()["revision"]), column.Age(),
		},
		Row: row.Cells(func(c *appsv1.ControllerRevision, o kind.RowOptions) []any {
			owner := "<none>"
			if ref := metav1.GetControllerOf(c); ref != nil {
				owner = strings.ToLower(ref.Kind) + "." + strings.Split(ref.APIVersion, "/")[0] + "/" + ref.Name
			}
			return []any{c.Name, owner, c.Revision, column.Since(c.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

// checkRevision wants data that never changes.
func checkRevision(c, was *appsv1.ControllerRevision) field.ErrorList {
	var f row.Findings
	data := field.NewPath("data")
	if len(c.Data.Raw) == 0 && c.Data.Object == nil {
		f.Required(data, "data is mandatory")
	}
	f.NotNegative(field.NewPath("revision"), c.Revision)
	if was != nil {
		f.Same(data, c.Data, was.Data)
	}
	return f.List()
}
