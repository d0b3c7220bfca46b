package apps

import (
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func controllerRevisions() resourcedef.Kind {
	k := newKind("controllerrevisions", "controllerrevision", "ControllerRevision")
	k.Names.Categories = nil
	k.Types = typed.NewNamespacedTypes[appsv1.ControllerRevision, appsv1.ControllerRevisionList]()
	k.Types.NoGenerate = true
	k.Rules = typed.Rules[appsv1.ControllerRevision]{Validate: checkRevision, AllowUnconditionalUpdate: true}.Untyped()
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{
			printers.NameColumn(), printers.StringColumn("Controller", "Controller of the object"),
			printers.StringColumn("Revision", appsv1.ControllerRevision{}.SwaggerDoc()["revision"]),
			printers.AgeColumn(),
		},
		Row: typed.RowFunc(func(c *appsv1.ControllerRevision, o resourcedef.RowOptions) []any {
			owner := "<none>"
			if ref := metav1.GetControllerOf(c); ref != nil {
				owner = ownerKind(ref) + "/" + ref.Name
			}
			return []any{c.Name, owner, c.Revision, printers.TimestampSince(c.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

// ownerKind returns an owner's kind with its group, as resources are named.
func ownerKind(ref *metav1.OwnerReference) string {
	kind := strings.ToLower(ref.Kind)
	if group, _, ok := strings.Cut(ref.APIVersion, "/"); ok {
		kind += "." + group
	}
	return kind
}

func checkRevision(c, previous *appsv1.ControllerRevision) field.ErrorList {
	var f typed.Errors
	data := field.NewPath("data")
	f.NotNegative(field.NewPath("revision"), c.Revision)
	if previous != nil {
		f.Immutable(data, c.Data, previous.Data)
		return f.List()
	}
	var value any
	if len(c.Data.Raw) > 0 {
		if err := json.Unmarshal(c.Data.Raw, &value); err != nil {
			f.Invalid(data, "<value omitted>", fmt.Sprintf("error parsing data: %v", err))
			return f.List()
		}
	}
	if value == nil {
		f.Required(data, "data is mandatory")
	} else if _, ok := value.(map[string]any); !ok {
		f.Required(data, "data must be a valid JSON object")
	}
	return f.List()
}
