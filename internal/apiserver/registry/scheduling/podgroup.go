package scheduling

import (
	"context"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func podGroups() resourcedef.Kind {
	k := beta("podgroups", "PodGroup", typed.NewNamespacedTypes[schedulingv1beta1.PodGroup,
		schedulingv1beta1.PodGroupList]())
	k.Types.HasStatus = true
	k.Types.StatusResetFields = []string{"metadata"}
	k.Rules = typed.Rules[schedulingv1beta1.PodGroup]{
		Default: func(g *schedulingv1beta1.PodGroup) {
			typed.SetDefault(&g.Spec.DisruptionMode,
				schedulingv1beta1.DisruptionMode{Single: &schedulingv1beta1.SingleDisruptionMode{}})
		},
		PrepareForCreate:       func(_ context.Context, g *schedulingv1beta1.PodGroup) { dropFromGroup(&g.Spec) },
		PrepareForUpdate:       func(g, _ *schedulingv1beta1.PodGroup) { dropFromGroup(&g.Spec) },
		Validate:               checkGroup,
		PrepareForStatusUpdate: func(g, _ *schedulingv1beta1.PodGroup) { g.Status.ResourceClaimStatuses = nil },
		ValidateStatus:         checkGroupStatus,
	}.Untyped()
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{printers.NameColumn(), printers.AgeColumn()},
		Row: typed.RowFunc(func(g *schedulingv1beta1.PodGroup, o resourcedef.RowOptions) []any {
			return []any{g.Name, printers.TimestampSince(g.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

// dropFromGroup removes what stands behind gates that are off; see dropFromWorkload.
func dropFromGroup(s *schedulingv1beta1.PodGroupSpec) {
	s.ParentCompositePodGroupName, s.SchedulingConstraints, s.ResourceClaims, s.PreemptionPolicy = nil, nil, nil, nil
}

func checkGroup(g, previous *schedulingv1beta1.PodGroup) field.ErrorList {
	var f typed.Errors
	s, at := &g.Spec, field.NewPath("spec")
	var policy *schedulingv1beta1.PodGroupSchedulingPolicy
	if previous != nil {
		old := &previous.Spec
		policy = &old.SchedulingPolicy
		immutable(&f, at.Child("workloadRef"), s.WorkloadRef, old.WorkloadRef)
		immutable(&f, at.Child("disruptionMode"), s.DisruptionMode, old.DisruptionMode)
		immutable(&f, at.Child("priorityClassName"), s.PriorityClassName, old.PriorityClassName)
		immutable(&f, at.Child("priority"), s.Priority, old.Priority)
	}
	if r := s.WorkloadRef; r != nil {
		ref := at.Child("workloadRef")
		required(&f, ref.Child("workloadName"), r.WorkloadName, longName)
		required(&f, ref.Child("templateName"), r.TemplateName, shortName)
	}
	checkPolicy(&f, at.Child("schedulingPolicy"), &s.SchedulingPolicy, policy)
	checkDisruption(&f, at.Child("disruptionMode"), s.DisruptionMode)
	if s.PriorityClassName != "" {
		longName(&f, at.Child("priorityClassName"), s.PriorityClassName)
	}
	checkNumber(&f, at.Child("priority"), s.Priority)
	return f.List()
}

func checkGroupStatus(g, _ *schedulingv1beta1.PodGroup) field.ErrorList {
	var f typed.Errors
	at := field.NewPath("status", "conditions")
	f.Add(metavalidation.ValidateConditions(g.Status.Conditions, at)...)
	return f.List()
}

// checkPolicy validates which policy is chosen, and that the choice stays; minCount may change.
func checkPolicy(f *typed.Errors, at *field.Path, p, previous *schedulingv1beta1.PodGroupSchedulingPolicy) {
	const members = "`basic`, `gang`"
	switch {
	case p.Basic == nil && p.Gang == nil:
		f.Invalid(at, "", "must specify one of: "+members)
	case p.Basic != nil && p.Gang != nil:
		f.Invalid(at, "{basic, gang}", "must specify exactly one of: "+members)
	}
	if previous != nil {
		immutable(f, at.Child("basic"), p.Basic, previous.Basic)
		if previous.Gang == nil && p.Gang != nil {
			f.Invalid(at.Child("gang"), nil, "field cannot be set once created")
		}
		if previous.Gang != nil && p.Gang == nil {
			f.Invalid(at.Child("gang"), nil, "field cannot be cleared once set")
		}
	}
	if p.Gang == nil {
		return
	}
	if least := at.Child("gang", "minCount"); p.Gang.MinCount == 0 {
		f.Required(least, "")
	} else {
		f.AtLeast(least, int64(p.Gang.MinCount), 1)
	}
}

func checkDisruption(f *typed.Errors, at *field.Path, d *schedulingv1beta1.DisruptionMode) {
	const members = "`single`, `all`"
	switch {
	case d == nil:
	case d.Single == nil && d.All == nil:
		f.Invalid(at, "", "must specify one of: "+members)
	case d.Single != nil && d.All != nil:
		f.Invalid(at, "{single, all}", "must specify exactly one of: "+members)
	}
}

// checkNumber validates a priority: what lies above the highest of users is the system's.
func checkNumber(f *typed.Errors, at *field.Path, n *int32) {
	if n != nil && *n > maxUserPriority {
		f.Invalid(at, *n, content.MaxError(int32(maxUserPriority)))
	}
}

// immutable refuses any change of a field, in the words of upstream's declarative validation.
func immutable(f *typed.Errors, at *field.Path, value, previous any) {
	if !equality.Semantic.DeepEqual(value, previous) {
		f.Invalid(at, nil, "field is immutable")
	}
}

func required(f *typed.Errors, at *field.Path, s string, check func(*typed.Errors, *field.Path, string)) {
	if s == "" {
		f.Required(at, "")
		return
	}
	check(f, at, s)
}

func longName(f *typed.Errors, at *field.Path, s string) {
	f.InvalidEach(at, s, validation.IsDNS1123Subdomain(s))
}

func shortName(f *typed.Errors, at *field.Path, s string) {
	if s == "" {
		f.Required(at, "")
		return
	}
	f.InvalidEach(at, s, validation.IsDNS1123Label(s))
}

func segment(f *typed.Errors, at *field.Path, s string) {
	if s == "" {
		f.Required(at, "")
		return
	}
	f.InvalidEach(at, s, content.IsPathSegmentName(s))
}
