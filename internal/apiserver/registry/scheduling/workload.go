package scheduling

import (
	"context"
	"strings"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
)

// Beta are the rows of scheduling.k8s.io/v1beta1, which upstream serves with the gate GenericWorkload only (KEP-4671): Workload, PodGroup.
func Beta() []kind.Kind { return []kind.Kind{workloads(), podGroups()} }

// AddBeta makes their types known.
func AddBeta(s *runtime.Scheme) error {
	gv := schedulingv1beta1.SchemeGroupVersion
	s.AddKnownTypes(gv, &schedulingv1beta1.Workload{}, &schedulingv1beta1.WorkloadList{}, &schedulingv1beta1.PodGroup{}, &schedulingv1beta1.PodGroupList{})
	metav1.AddToGroupVersion(s, gv)
	return nil
}

func beta(resource, kindName string, t kind.Types) kind.Kind {
	return kind.Kind{
		Group: schedulingv1beta1.GroupName, Version: "v1beta1", Resource: resource, Singular: strings.ToLower(kindName), Kind: kindName, Types: t,
	}
}

func workloads() kind.Kind {
	k := beta("workloads", "Workload", row.InNamespace[schedulingv1beta1.Workload, schedulingv1beta1.WorkloadList]())
	k.Rules = row.Rules[schedulingv1beta1.Workload]{
		Create: func(_ context.Context, w *schedulingv1beta1.Workload) { dropFromWorkload(&w.Spec) },
		Update: func(w, _ *schedulingv1beta1.Workload) { dropFromWorkload(&w.Spec) },
		Check:  checkWorkload,
	}.Rules()
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{column.Name(), column.Age()},
		Row: row.Cells(func(w *schedulingv1beta1.Workload, o kind.RowOptions) []any {
			return []any{w.Name, column.Since(w.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

// dropFromWorkload removes what stands behind gates that v1.37 has off: CompositePodGroup, TopologyAwareWorkloadScheduling, DRAWorkloadResourceClaims and
// PodGroupPreemptionPolicy. They cannot be switched on here, so no stored object has them.
func dropFromWorkload(s *schedulingv1beta1.WorkloadSpec) {
	s.CompositePodGroupTemplates = nil
	for i := range s.PodGroupTemplates {
		t := &s.PodGroupTemplates[i]
		t.SchedulingConstraints, t.ResourceClaims, t.PreemptionPolicy = nil, nil, nil
	}
}

func checkWorkload(w, was *schedulingv1beta1.Workload) field.ErrorList {
	var f row.Findings
	spec, old := field.NewPath("spec"), (*schedulingv1beta1.WorkloadSpec)(nil)
	if was != nil {
		old = &was.Spec
		immutable(&f, spec.Child("controllerRef"), w.Spec.ControllerRef, old.ControllerRef)
	}
	if c := w.Spec.ControllerRef; c != nil {
		at := spec.Child("controllerRef")
		if c.APIGroup != "" {
			longName(&f, at.Child("apiGroup"), c.APIGroup)
		}
		segment(&f, at.Child("kind"), c.Kind)
		segment(&f, at.Child("name"), c.Name)
	}
	checkTemplates(&f, w.Spec.PodGroupTemplates, old)
	return f.List()
}

func checkTemplates(f *row.Findings, list []schedulingv1beta1.PodGroupTemplate, old *schedulingv1beta1.WorkloadSpec) {
	at := field.NewPath("spec", "podGroupTemplates")
	if len(list) == 0 {
		f.Invalid(field.NewPath("spec"), "", "must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`")
	}
	if n := len(list); n > schedulingv1beta1.WorkloadMaxPodGroupTemplates {
		f.Add(field.TooMany(at, n, schedulingv1beta1.WorkloadMaxPodGroupTemplates))
		return
	}
	seen := map[string]bool{}
	for i := range list {
		t := &list[i]
		var was *schedulingv1beta1.PodGroupTemplate
		if old != nil {
			if was = template(old.PodGroupTemplates, t.Name); was == nil {
				f.Forbidden(at.Index(i), "item may not be added")
			}
		}
		if seen[t.Name] {
			f.Add(field.Duplicate(at.Index(i), t.Name))
		}
		seen[t.Name] = true
		checkTemplate(f, at.Index(i), t, was)
	}
	if old == nil {
		return
	}
	for i := range old.PodGroupTemplates {
		if !seen[old.PodGroupTemplates[i].Name] {
			f.Forbidden(at, "item may not be removed")
		}
	}
}

func template(list []schedulingv1beta1.PodGroupTemplate, name string) *schedulingv1beta1.PodGroupTemplate {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

func checkTemplate(f *row.Findings, at *field.Path, t, was *schedulingv1beta1.PodGroupTemplate) {
	shortName(f, at.Child("name"), t.Name)
	var policy *schedulingv1beta1.PodGroupSchedulingPolicy
	if was != nil {
		policy = &was.SchedulingPolicy
		immutable(f, at.Child("disruptionMode"), t.DisruptionMode, was.DisruptionMode)
		immutable(f, at.Child("priorityClassName"), t.PriorityClassName, was.PriorityClassName)
		immutable(f, at.Child("priority"), t.Priority, was.Priority)
	}
	checkPolicy(f, at.Child("schedulingPolicy"), &t.SchedulingPolicy, policy)
	checkDisruption(f, at.Child("disruptionMode"), t.DisruptionMode)
	if t.PriorityClassName != "" {
		longName(f, at.Child("priorityClassName"), t.PriorityClassName)
	}
	checkNumber(f, at.Child("priority"), t.Priority)
}
