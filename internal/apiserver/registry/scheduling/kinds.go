// Package scheduling holds the rows of scheduling.k8s.io: PriorityClass, and behind the gate
// GenericWorkload Workload and PodGroup (v1beta1). In: nothing. Out: rows for apiserver.Kinds, with
// v1.37's defaults, checks and columns; with the gate on, Pods and templates that may name a
// PodGroup.
package scheduling

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// Kinds are the rows of this package.
func Kinds() []resourcedef.Kind { return []resourcedef.Kind{priorityClasses()} }

// maxUserPriority is the highest priority a user may give; what lies above is the system's.
const maxUserPriority = 1000000000

func priorityClasses() resourcedef.Kind {
	doc := schedulingv1.PriorityClass{}.SwaggerDoc()
	k := resourcedef.Kind{
		Group: schedulingv1.GroupName, Version: "v1", Resource: "priorityclasses", Singular: "priorityclass",
		Kind:  "PriorityClass",
		Names: resourcedef.Names{Short: []string{"pc"}},
		Types: typed.NewTypes[schedulingv1.PriorityClass, schedulingv1.PriorityClassList](),
		Rules: typed.Rules[schedulingv1.PriorityClass]{
			Default: func(p *schedulingv1.PriorityClass) {
				typed.SetDefault(&p.PreemptionPolicy, corev1.PreemptLowerPriority)
			},
			PrepareForCreate:         func(_ context.Context, p *schedulingv1.PriorityClass) { p.Generation = 1 },
			Validate:                 checkPriority,
			AllowUnconditionalUpdate: true,
		}.Untyped(),
		Table: resourcedef.Table{
			Columns: []metav1.TableColumnDefinition{
				printers.NameColumn(), printers.IntColumn("Value", doc["value"]),
				{Name: "Global-Default", Type: "boolean", Description: doc["globalDefault"]},
				printers.AgeColumn(), printers.StringColumn("PreemptionPolicy", doc["preemptionPolicy"]),
			},
			Row: typed.RowFunc(func(p *schedulingv1.PriorityClass, o resourcedef.RowOptions) []any {
				policy := corev1.PreemptLowerPriority
				if p.PreemptionPolicy != nil {
					policy = *p.PreemptionPolicy
				}
				return []any{p.Name, int64(p.Value), p.GlobalDefault,
					printers.TimestampSince(p.CreationTimestamp, o.Now), string(policy)}
			}),
		},
	}
	k.Types.NoGenerate = true // the generation is 1 and stays
	return k
}

func checkPriority(p, previous *schedulingv1.PriorityClass) field.ErrorList {
	var f typed.Errors
	value, policy := field.NewPath("value"), field.NewPath("preemptionPolicy")
	if previous != nil {
		if p.Value != previous.Value {
			f.Forbidden(value, "may not be changed in an update.")
		}
		f.Immutable(policy, p.PreemptionPolicy, previous.PreemptionPolicy)
		return f.List()
	}
	if strings.HasPrefix(p.Name, "system-") {
		if problem := system(p); problem != "" {
			f.Forbidden(field.NewPath("metadata", "name"),
				"priority class names with 'system-' prefix are reserved for system use only. error: "+problem)
		}
	} else if p.Value > maxUserPriority {
		f.Forbidden(value, fmt.Sprintf("maximum allowed value of a user defined priority is %d", maxUserPriority))
	}
	if p.PreemptionPolicy == nil || *p.PreemptionPolicy == "" {
		f.Required(policy, "")
	} else {
		typed.Supported(&f, policy, *p.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
	return f.List()
}

// system says what is wrong with a class that calls itself the system's; "" when it is one.
func system(p *schedulingv1.PriorityClass) string {
	value := map[string]int32{"system-cluster-critical": 2 * maxUserPriority,
		"system-node-critical": 2*maxUserPriority + 1000}
	switch want, ok := value[p.Name]; {
	case !ok:
		return p.Name + " is not a known system priority class"
	case p.Value != want:
		return fmt.Sprintf("value of %s PriorityClass must be %d", p.Name, want)
	case p.GlobalDefault:
		return fmt.Sprintf("globalDefault of %s PriorityClass must be false", p.Name)
	}
	return ""
}
