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

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
)

func podGroups() kind.Kind {
	k := beta("podgroups", "PodGroup", row.InNamespace[schedulingv1beta1.PodGroup, schedulingv1beta1.PodGroupList]())
	k.Types.HasStatus = true
	k.Rules = row.Rules[schedulingv1beta1.PodGroup]{
		Default: func(g *schedulingv1beta1.PodGroup) {
			row.OrElse(&g.Spec.DisruptionMode, schedulingv1beta1.DisruptionMode{Single: &schedulingv1beta1.SingleDisruptionMode{}})
		},
		Create:      func(_ context.Context, g *schedulingv1beta1.PodGroup) { dropFromGroup(&g.Spec) },
		Update:      func(g, _ *schedulingv1beta1.PodGroup) { dropFromGroup(&g.Spec) },
		Check:       checkGroup,
		Status:      func(g, _ *schedulingv1beta1.PodGroup) { g.Status.ResourceClaimStatuses = nil },
		CheckStatus: checkGroupStatus,
	}.Rules()
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{column.Name(), column.Age()},
		Row: row.Cells(func(g *schedulingv1beta1.PodGroup, o kind.RowOptions) []any {
			return []any{g.Name, column.Since(g.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

// dropFromGroup removes what stands behind gates that are off; see dropFromWorkload.
func dropFromGroup(s *schedulingv1beta1.PodGroupSpec) {
	s.ParentCompositePodGroupName, s.SchedulingConstraints, s.ResourceClaims, s.PreemptionPolicy = nil, nil, nil, nil
}

func checkGroup(g, was *schedulingv1beta1.PodGroup) field.ErrorList {
	var f row.Findings
	s, at := &g.Spec, field.NewPath("spec")
	var policy *schedulingv1beta1.PodGroupSchedulingPolicy
	if was != nil {
		old := &was.Spec
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
	var f row.Findings
	at := field.NewPath("status", "conditions")
	f.Add(metavalidation.ValidateConditions(g.Status.Conditions, at)...)
	return f.List()
}

// checkPolicy judges which policy is chosen, and that the choice stays; minCount may change.
func checkPolicy(f *row.Findings, at *field.Path, p, was *schedulingv1beta1.PodGroupSchedulingPolicy) {
	const members = "`basic`, `gang`"
	switch {
	case p.Basic == nil && p.Gang == nil:
		f.Invalid(at, "", "must specify one of: "+members)
	case p.Basic != nil && p.Gang != nil:
		f.Invalid(at, "{basic, gang}", "must specify exactly one of: "+members)
	}
	if was != nil {
		immutable(f, at.Child("basic"), p.Basic, was.Basic)
		if was.Gang == nil && p.Gang != nil {
			f.Invalid(at.Child("gang"), nil, "field cannot be set once created")
		}
		if was.Gang != nil && p.Gang == nil {
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

func checkDisruption(f *row.Findings, at *field.Path, d *schedulingv1beta1.DisruptionMode) {
	const members = "`single`, `all`"
	switch {
	case d == nil:
	case d.Single == nil && d.All == nil:
		f.Invalid(at, "", "must specify one of: "+members)
	case d.Single != nil && d.All != nil:
		f.Invalid(at, "{single, all}", "must specify exactly one of: "+members)
	}
}

// checkNumber judges a priority: what lies above the highest of users is the system's.
func checkNumber(f *row.Findings, at *field.Path, n *int32) {
	if n != nil && *n > highest {
		f.Invalid(at, *n, content.MaxError(int32(highest)))
	}
}

// immutable refuses any change of a field, in the words of upstream's declarative validation.
func immutable(f *row.Findings, at *field.Path, value, was any) {
	if !equality.Semantic.DeepEqual(value, was) {
		f.Invalid(at, nil, "field is immutable")
	}
}

func required(f *row.Findings, at *field.Path, s string, check func(*row.Findings, *field.Path, string)) {
	if s == "" {
		f.Required(at, "")
		return
	}
	check(f, at, s)
}

func longName(f *row.Findings, at *field.Path, s string) {
	f.Each(at, s, validation.IsDNS1123Subdomain(s))
}

func shortName(f *row.Findings, at *field.Path, s string) {
	if s == "" {
		f.Required(at, "")
		return
	}
	f.Each(at, s, validation.IsDNS1123Label(s))
}

func segment(f *row.Findings, at *field.Path, s string) {
	if s == "" {
		f.Required(at, "")
		return
	}
	f.Each(at, s, content.IsPathSegmentName(s))
}
