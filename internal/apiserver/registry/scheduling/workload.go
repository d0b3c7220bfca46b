package scheduling

import (
	"context"
	"strings"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// BetaKinds are the rows of scheduling.k8s.io/v1beta1, which upstream serves with the gate
// GenericWorkload only (KEP-4671): Workload, PodGroup.
func BetaKinds() []resourcedef.Kind { return []resourcedef.Kind{workloads(), podGroups()} }

// AddBeta makes their types known.
func AddBeta(s *runtime.Scheme) error {
	gv := schedulingv1beta1.SchemeGroupVersion
	s.AddKnownTypes(gv, &schedulingv1beta1.Workload{}, &schedulingv1beta1.WorkloadList{}, &schedulingv1beta1.PodGroup{},
		&schedulingv1beta1.PodGroupList{})
	metav1.AddToGroupVersion(s, gv)
	return nil
}

func beta(resource, kindName string, t resourcedef.Types) resourcedef.Kind {
	return resourcedef.Kind{
		Group: schedulingv1beta1.GroupName, Version: "v1beta1", Resource: resource, Singular: strings.ToLower(kindName),
		Kind: kindName, Types: t,
	}
}

func workloads() resourcedef.Kind {
	k := beta("workloads", "Workload", typed.NewNamespacedTypes[schedulingv1beta1.Workload,
		schedulingv1beta1.WorkloadList]())
	k.Rules = typed.Rules[schedulingv1beta1.Workload]{
		PrepareForCreate: func(_ context.Context, w *schedulingv1beta1.Workload) { dropFromWorkload(&w.Spec) },
		PrepareForUpdate: func(w, _ *schedulingv1beta1.Workload) { dropFromWorkload(&w.Spec) },
		Validate:         checkWorkload,
	}.Untyped()
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{printers.NameColumn(), printers.AgeColumn()},
		Row: typed.RowFunc(func(w *schedulingv1beta1.Workload, o resourcedef.RowOptions) []any {
			return []any{w.Name, printers.TimestampSince(w.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

// dropFromWorkload removes what stands behind gates that v1.37 has off: CompositePodGroup,
// TopologyAwareWorkloadScheduling, DRAWorkloadResourceClaims and PodGroupPreemptionPolicy. They
// cannot be switched on here, so no stored object has them.
func dropFromWorkload(s *schedulingv1beta1.WorkloadSpec) {
	s.CompositePodGroupTemplates = nil
	for i := range s.PodGroupTemplates {
		t := &s.PodGroupTemplates[i]
		t.SchedulingConstraints, t.ResourceClaims, t.PreemptionPolicy = nil, nil, nil
	}
}

func checkWorkload(w, previous *schedulingv1beta1.Workload) field.ErrorList {
	var f typed.Errors
	spec, old := field.NewPath("spec"), (*schedulingv1beta1.WorkloadSpec)(nil)
	if previous != nil {
		old = &previous.Spec
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

func checkTemplates(f *typed.Errors, list []schedulingv1beta1.PodGroupTemplate, old *schedulingv1beta1.WorkloadSpec) {
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
		var previous *schedulingv1beta1.PodGroupTemplate
		if old != nil {
			if previous = template(old.PodGroupTemplates, t.Name); previous == nil {
				f.Forbidden(at.Index(i), "item may not be added")
			}
		}
		if seen[t.Name] {
			f.Add(field.Duplicate(at.Index(i), t.Name))
		}
		seen[t.Name] = true
		checkTemplate(f, at.Index(i), t, previous)
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

func checkTemplate(f *typed.Errors, at *field.Path, t, previous *schedulingv1beta1.PodGroupTemplate) {
	shortName(f, at.Child("name"), t.Name)
	var policy *schedulingv1beta1.PodGroupSchedulingPolicy
	if previous != nil {
		policy = &previous.SchedulingPolicy
		immutable(f, at.Child("disruptionMode"), t.DisruptionMode, previous.DisruptionMode)
		immutable(f, at.Child("priorityClassName"), t.PriorityClassName, previous.PriorityClassName)
		immutable(f, at.Child("priority"), t.Priority, previous.Priority)
	}
	checkPolicy(f, at.Child("schedulingPolicy"), &t.SchedulingPolicy, policy)
	checkDisruption(f, at.Child("disruptionMode"), t.DisruptionMode)
	if t.PriorityClassName != "" {
		longName(f, at.Child("priorityClassName"), t.PriorityClassName)
	}
	checkNumber(f, at.Child("priority"), t.Priority)
}
