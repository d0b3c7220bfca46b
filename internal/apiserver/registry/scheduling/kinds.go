// Package scheduling holds the rows of scheduling.k8s.io: PriorityClass, and behind the gate GenericWorkload Workload and PodGroup (v1beta1).
//
// Chapter 1, written.
// In: nothing. Out: rows for apiserver.Kinds, with v1.37's defaults, checks and columns; with the gate on, Pods and templates that may name a PodGroup.
package scheduling

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
)

// Kinds are the rows of this package.
func Kinds() []kind.Kind { return []kind.Kind{priorityClasses()} }

// highest is the highest priority a user may give; what lies above is the system's.
const highest = 1000000000

func priorityClasses() kind.Kind {
	doc := schedulingv1.PriorityClass{}.SwaggerDoc()
	k := kind.Kind{
		Group: schedulingv1.GroupName, Version: "v1", Resource: "priorityclasses", Singular: "priorityclass", Kind: "PriorityClass",
		Names: kind.Names{Short: []string{"pc"}},
		Types: row.Types[schedulingv1.PriorityClass, schedulingv1.PriorityClassList](),
		Rules: row.Rules[schedulingv1.PriorityClass]{
			Default:       func(p *schedulingv1.PriorityClass) { row.OrElse(&p.PreemptionPolicy, corev1.PreemptLowerPriority) },
			Create:        func(_ context.Context, p *schedulingv1.PriorityClass) { p.Generation = 1 },
			Check:         checkPriority,
			Unconditional: true,
		}.Rules(),
		Table: kind.Table{
			Columns: []metav1.TableColumnDefinition{
				column.Name(), column.Int("Value", doc["value"]), {Name: "Global-Default", Type: "boolean", Description: doc["globalDefault"]},
				column.Age(), column.Def("PreemptionPolicy", doc["preemptionPolicy"]),
			},
			Row: row.Cells(func(p *schedulingv1.PriorityClass, o kind.RowOptions) []any {
				policy := corev1.PreemptLowerPriority
				if p.PreemptionPolicy != nil {
					policy = *p.PreemptionPolicy
				}
				return []any{p.Name, int64(p.Value), p.GlobalDefault, column.Since(p.CreationTimestamp, o.Now), string(policy)}
			}),
		},
	}
	k.Types.NoGenerate = true // the generation is 1 and stays
	return k
}

func checkPriority(p, was *schedulingv1.PriorityClass) field.ErrorList {
	var f row.Findings
	value, policy := field.NewPath("value"), field.NewPath("preemptionPolicy")
	if was != nil {
		if p.Value != was.Value {
			f.Forbidden(value, "may not be changed in an update.")
		}
		f.Same(policy, p.PreemptionPolicy, was.PreemptionPolicy)
		return f.List()
	}
	if strings.HasPrefix(p.Name, "system-") {
		if problem := system(p); problem != "" {
			f.Forbidden(field.NewPath("metadata", "name"), "priority class names with 'system-' prefix are reserved for system use only. error: "+problem)
		}
	} else if p.Value > highest {
		f.Forbidden(value, fmt.Sprintf("maximum allowed value of a user defined priority is %d", highest))
	}
	if p.PreemptionPolicy == nil || *p.PreemptionPolicy == "" {
		f.Required(policy, "")
	} else {
		row.OneOf(&f, policy, *p.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
	return f.List()
}

// system says what is wrong with a class that calls itself the system's; "" when it is one.
func system(p *schedulingv1.PriorityClass) string {
	value := map[string]int32{"system-cluster-critical": 2 * highest, "system-node-critical": 2*highest + 1000}
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
