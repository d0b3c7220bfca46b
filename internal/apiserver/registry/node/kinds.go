// Package node holds the row of node.k8s.io/v1: RuntimeClass.
//
// Node itself is a core kind and lives in registry/nodes.
// In: nothing. Out: rows for apiserver.Kinds, with v1.37's checks and columns.
package node

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// Kinds are the rows of this package.
func Kinds() []resourcedef.Kind { return []resourcedef.Kind{runtimeClasses()} }

func runtimeClasses() resourcedef.Kind {
	k := resourcedef.Kind{
		Group: nodev1.GroupName, Version: "v1", Resource: "runtimeclasses", Singular: "runtimeclass",
		Kind:  "RuntimeClass",
		Types: typed.NewTypes[nodev1.RuntimeClass, nodev1.RuntimeClassList](),
		Rules: typed.Rules[nodev1.RuntimeClass]{
			Default: func(r *nodev1.RuntimeClass) {
				if r.Overhead != nil {
					podspec.RoundResources(r.Overhead.PodFixed)
				}
			},
			Validate:            check,
			Warn:                warn,
			AllowCreateOnUpdate: true,
		}.Untyped(),
		Table: resourcedef.Table{
			Columns: []metav1.TableColumnDefinition{printers.NameColumn(), printers.StringColumn("Handler", ""),
				printers.AgeColumn()},
			Row: typed.RowFunc(func(r *nodev1.RuntimeClass, o resourcedef.RowOptions) []any {
				return []any{r.Name, r.Handler, printers.TimestampSince(r.CreationTimestamp, o.Now)}
			}),
		},
	}
	k.Types.NoGenerate = true
	return k
}

// warn tells of deprecated labels in the node selector.
func warn(r *nodev1.RuntimeClass) []string {
	if r.Scheduling == nil {
		return nil
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(r.Scheduling.NodeSelector)) {
		if text := podspec.DeprecatedNodeLabel(k); text != "" {
			out = append(out, "scheduling.nodeSelector: "+text)
		}
	}
	return out
}

// check validates a class, at an update as well; the handler may not change.
func check(r, previous *nodev1.RuntimeClass) field.ErrorList {
	var f typed.Errors
	handler := field.NewPath("handler")
	if r.Overhead != nil {
		f.Add(podspec.ValidateOverhead(r.Overhead.PodFixed, field.NewPath("overhead"))...)
	}
	if s, path := r.Scheduling, field.NewPath("scheduling"); s != nil {
		f.Add(metavalidation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector"))...)
		f.Add(podspec.ValidateTolerations(s.Tolerations, path.Child("tolerations"))...)
		for i, t := range s.Tolerations {
			if slices.ContainsFunc(s.Tolerations[:i], func(o corev1.Toleration) bool { return sameTaints(&o, &t) }) {
				f.Add(field.Duplicate(path.Child("tolerations").Index(i), typed.GoFields(t)))
			}
		}
	}
	if r.Handler != "" {
		f.InvalidEach(handler, r.Handler, content.IsDNS1123Label(r.Handler))
	}
	if previous != nil {
		f.ImmutableWithoutValue(handler, r.Handler, previous.Handler)
	}
	if r.Handler == "" {
		f.Required(handler, "")
	}
	return f.List()
}

// sameTaints says that two tolerations are about the same taints, however long they last.
func sameTaints(a, b *corev1.Toleration) bool {
	return a.Key == b.Key && a.Operator == b.Operator && a.Value == b.Value && a.Effect == b.Effect
}
