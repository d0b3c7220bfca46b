package pods

import (
	"fmt"
	"math"
	"sort"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
)

const updatableFieldsMessage = "`spec.containers[*].image`,`spec.initContainers[*].image`," +
	"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

// ValidateUpdate validates a change through the main endpoint: images, a shorter deadline, more
// tolerations, fewer gates, and while gated narrower node constraints; nothing else of the spec.
func ValidateUpdate(p, old *v1.Pod) field.ErrorList {
	errs := validateAnyUpdate(p, old)
	spec := field.NewPath("spec")
	for _, list := range []struct {
		child    string
		now, was []v1.Container
	}{{"containers", p.Spec.Containers, old.Spec.Containers},
		{"initContainers", p.Spec.InitContainers, old.Spec.InitContainers}} {
		path := spec.Child(list.child)
		if len(list.now) != len(list.was) {
			return append(errs, field.Forbidden(path, "pod updates may not add or remove containers"))
		}
		for i := range list.now {
			if list.now[i].Image == "" {
				errs = append(errs, field.Required(path.Index(i).Child("image"), ""))
			}
			errs = append(errs, podspec.ValidateImageWhitespace(&list.now[i], path.Index(i))...)
		}
	}
	deadline, stop := deadlineUpdate(p, old, spec.Child("activeDeadlineSeconds"))
	if errs = append(errs, deadline...); stop {
		return errs
	}
	errs = append(errs, tolerationUpdate(p, old, spec.Child("tolerations"))...)
	errs = append(errs, gateUpdate(p, old, spec.Child("schedulingGates"))...)
	if apiequality.Semantic.DeepEqual(p.Spec, old.Spec) {
		return errs
	}
	rest, more := withoutAllowedChanges(p, old)
	errs = append(errs, more...)
	if !apiequality.Semantic.DeepEqual(rest, &old.Spec) {
		errs = append(errs,
			field.Forbidden(spec, fmt.Sprintf("pod updates may not change fields other than %s\n%v",
				updatableFieldsMessage, diff.Diff(&old.Spec, rest))))
	}
	return errs
}

// deadlineUpdate: a deadline may be set once and shortened, never lengthened or lifted.
func deadlineUpdate(p, old *v1.Pod, path *field.Path) (errs field.ErrorList, stop bool) {
	now, previous := p.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds
	switch {
	case now == nil && previous == nil:
		return nil, false
	case now == nil:
		return field.ErrorList{field.Invalid(path, now, "must not update from a positive integer to nil value")}, false
	case *now < 0 || *now > math.MaxInt32:
		return field.ErrorList{field.Invalid(path, *now, validation.InclusiveRangeError(0, math.MaxInt32))}, true
	case previous != nil && *previous < *now:
		return field.ErrorList{field.Invalid(path, *now, "must be less than or equal to previous value")}, true
	}
	return nil, false
}

// tolerationUpdate: tolerations may be added; of an existing one only the seconds may change.
func tolerationUpdate(p, old *v1.Pod, path *field.Path) field.ErrorList {
	for _, previous := range old.Spec.Tolerations {
		found := false
		for _, now := range p.Spec.Tolerations {
			previous.TolerationSeconds = now.TolerationSeconds
			if found = apiequality.Semantic.DeepEqual(previous, now); found {
				break
			}
		}
		if !found {
			return field.ErrorList{
				field.Forbidden(path, "existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return podspec.ValidateTolerations(p.Spec.Tolerations, path)
}

// gateUpdate: gates may only be taken away. One that is named twice is refused at its last place.
func gateUpdate(p, old *v1.Pod, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	had, last := map[string]bool{}, map[string]int{}
	for _, g := range old.Spec.SchedulingGates {
		had[g.Name] = true
	}
	for i, g := range p.Spec.SchedulingGates {
		last[g.Name] = i
	}
	for i, g := range p.Spec.SchedulingGates {
		if !had[g.Name] && last[g.Name] == i {
			errs = append(errs,
				field.Forbidden(path.Index(i).Child("name"),
					fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", g.Name)))
		}
	}
	return errs
}

// withoutAllowedChanges is the new spec with every allowed change taken back: what is left must
// equal the stored spec.
func withoutAllowedChanges(p, old *v1.Pod) (*v1.PodSpec, field.ErrorList) {
	var errs field.ErrorList
	s, previous := p.Spec.DeepCopy(), &old.Spec
	for i := range s.Containers {
		s.Containers[i].Image = previous.Containers[i].Image
	}
	for i := range s.InitContainers {
		s.InitContainers[i].Image = previous.InitContainers[i].Image
	}
	s.ActiveDeadlineSeconds = previous.ActiveDeadlineSeconds
	s.Tolerations = previous.Tolerations
	s.SchedulingGates = previous.SchedulingGates
	if g := previous.TerminationGracePeriodSeconds; g != nil && *g < 0 && s.TerminationGracePeriodSeconds != nil &&
		*s.TerminationGracePeriodSeconds == 1 {
		s.TerminationGracePeriodSeconds = g
	}
	if len(previous.SchedulingGates) == 0 {
		return s, nil
	}
	path := field.NewPath("spec")
	if !apiequality.Semantic.DeepEqual(s.NodeSelector, previous.NodeSelector) {
		errs = append(errs, selectorUpdate(s.NodeSelector, previous.NodeSelector, path.Child("nodeSelector"))...)
		s.NodeSelector = previous.NodeSelector
	}
	now, then := nodeAffinity(s), nodeAffinity(previous)
	if !apiequality.Semantic.DeepEqual(now, then) {
		errs = append(errs, affinityUpdate(now, then, path.Child("affinity").Child("nodeAffinity"))...)
		restoreNodeAffinity(s, previous)
	}
	return s, errs
}

func nodeAffinity(s *v1.PodSpec) *v1.NodeAffinity {
	if s.Affinity == nil {
		return nil
	}
	return s.Affinity.NodeAffinity
}

// restoreNodeAffinity puts the stored node affinity back, and takes away an affinity that held
// nothing else.
func restoreNodeAffinity(s, previous *v1.PodSpec) {
	if s.Affinity == nil && nodeAffinity(previous) != nil {
		s.Affinity = &v1.Affinity{}
	}
	if s.Affinity == nil {
		return
	}
	s.Affinity.NodeAffinity = nodeAffinity(previous)
	if previous.Affinity == nil && *s.Affinity == (v1.Affinity{}) {
		s.Affinity = nil
	}
}

// selectorUpdate: a gated Pod's node selector may gain keys.
func selectorUpdate(now, previous map[string]string, path *field.Path) field.ErrorList {
	keys := make([]string, 0, len(previous))
	for k := range previous {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		if v, ok := now[k]; !ok || v != previous[k] {
			return field.ErrorList{
				field.Invalid(path, now, "only additions to spec.nodeSelector are allowed (no mutations or deletions)")}
		}
	}
	return nil
}

// affinityUpdate: a gated Pod's required node affinity may be set, or its terms made narrower.
func affinityUpdate(now, previous *v1.NodeAffinity, path *field.Path) field.ErrorList {
	terms := func(a *v1.NodeAffinity) []v1.NodeSelectorTerm {
		if a == nil || a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
			return nil
		}
		return a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	a, b := terms(now), terms(previous)
	if len(b) == 0 {
		return nil
	}
	at := path.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	if len(a) != len(b) {
		return field.ErrorList{
			field.Invalid(at, a, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")}
	}
	var errs field.ErrorList
	for i := range b {
		if !isNarrower(&a[i], &b[i]) {
			errs = append(errs,
				field.Invalid(at.Index(i), a[i], "only additions are allowed (no mutations or deletions)"))
		}
	}
	return errs
}

// isNarrower says that a asks for all that b asks for, and maybe more. An empty term matches
// nothing, so it has nothing to narrow.
func isNarrower(a, b *v1.NodeSelectorTerm) bool {
	if len(b.MatchExpressions) == 0 && len(b.MatchFields) == 0 {
		return len(a.MatchExpressions) == 0 && len(a.MatchFields) == 0
	}
	starts := func(long, short []v1.NodeSelectorRequirement) bool {
		return len(long) >= len(short) && apiequality.Semantic.DeepEqual(long[:len(short)], short)
	}
	return starts(a.MatchExpressions, b.MatchExpressions) && starts(a.MatchFields, b.MatchFields)
}
