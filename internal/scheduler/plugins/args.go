package plugins

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	config "k8s.io/kube-scheduler/config/v1"
)

// argsOf makes an Args of typed functions.
func argsOf[A runtime.Object](make func() A, complete func(A), check func(*field.Path, A) field.ErrorList) Args {
	return Args{
		New:      func() runtime.Object { return make() },
		Default:  func(o runtime.Object) { complete(o.(A)) },
		Validate: func(p *field.Path, o runtime.Object) field.ErrorList { return check(p, o.(A)) },
	}
}

var (
	nodeAffinityArgs = argsOf(func() *config.NodeAffinityArgs { return &config.NodeAffinityArgs{} },
		func(*config.NodeAffinityArgs) {}, checkAffinity)
	fitArgs = argsOf(func() *config.NodeResourcesFitArgs { return &config.NodeResourcesFitArgs{} }, completeFit,
		checkFit)
	balancedArgs = argsOf(func() *config.NodeResourcesBalancedAllocationArgs {
		return &config.NodeResourcesBalancedAllocationArgs{}
	}, completeBalanced, checkBalanced)
	spreadArgs = argsOf(func() *config.PodTopologySpreadArgs { return &config.PodTopologySpreadArgs{} },
		completeSpread, checkSpread)
	interPodArgs = argsOf(func() *config.InterPodAffinityArgs { return &config.InterPodAffinityArgs{} },
		completeInterPod, checkInterPod)
	volumeArgs = argsOf(func() *config.VolumeBindingArgs { return &config.VolumeBindingArgs{} }, completeVolumes,
		checkVolumes)
	devicesArgs = argsOf(func() *config.DynamicResourcesArgs { return &config.DynamicResourcesArgs{} },
		completeDevices, checkDevices)
	preemptionArgs = argsOf(func() *config.DefaultPreemptionArgs { return &config.DefaultPreemptionArgs{} },
		completePreemption, checkPreemption)
)

func checkAffinity(path *field.Path, a *config.NodeAffinityArgs) field.ErrorList {
	if a.AddedAffinity == nil {
		return nil
	}
	path = path.Child("addedAffinity")
	var errs field.ErrorList
	if req := a.AddedAffinity.RequiredDuringSchedulingIgnoredDuringExecution; req != nil {
		p := path.Child("requiredDuringSchedulingIgnoredDuringExecution")
		_, err := nodeaffinity.NewNodeSelector(req, field.WithPath(p))
		errs = append(errs, asErrorList(p, err)...)
	}
	if pref := a.AddedAffinity.PreferredDuringSchedulingIgnoredDuringExecution; len(pref) > 0 {
		p := path.Child("preferredDuringSchedulingIgnoredDuringExecution")
		_, err := nodeaffinity.NewPreferredSchedulingTerms(pref, field.WithPath(p))
		errs = append(errs, asErrorList(p, err)...)
	}
	return errs
}

// asErrorList takes apart what a library says of several fields; what names none is said of the
// path.
func asErrorList(path *field.Path, err error) field.ErrorList {
	if err == nil {
		return nil
	}
	said := []error{err}
	if all := utilerrors.Aggregate(nil); errors.As(err, &all) {
		said = utilerrors.Flatten(all).Errors()
	}
	var out field.ErrorList
	for _, e := range said {
		one := &field.Error{}
		if !errors.As(e, &one) {
			one = field.InternalError(path, e)
		}
		out = append(out, one)
	}
	return out
}

func cpuAndMemory() []config.ResourceSpec {
	return []config.ResourceSpec{{Name: string(v1.ResourceCPU), Weight: 1},
		{Name: string(v1.ResourceMemory), Weight: 1}}
}

func completeFit(a *config.NodeResourcesFitArgs) {
	if a.ScoringStrategy == nil {
		a.ScoringStrategy = &config.ScoringStrategy{Type: config.LeastAllocated}
	}
	completeResources(&a.ScoringStrategy.Resources)
}

func completeBalanced(a *config.NodeResourcesBalancedAllocationArgs) { completeResources(&a.Resources) }

func completeResources(r *[]config.ResourceSpec) {
	if len(*r) == 0 {
		*r = cpuAndMemory()
	}
	for i := range *r {
		if (*r)[i].Weight == 0 {
			(*r)[i].Weight = 1
		}
	}
}

func checkFit(path *field.Path, a *config.NodeResourcesFitArgs) field.ErrorList {
	var errs field.ErrorList
	for i, name := range a.IgnoredResources {
		p := path.Child("ignoredResources").Index(i)
		for _, msg := range validation.IsQualifiedName(name) {
			errs = append(errs, field.Invalid(p, name, msg))
		}
	}
	for i, group := range a.IgnoredResourceGroups {
		p := path.Child("ignoredResourceGroups").Index(i)
		if strings.Contains(group, "/") {
			errs = append(errs, field.Invalid(p, group, "resource group name can't contain '/'"))
		} else {
			for _, msg := range validation.IsQualifiedName(group) {
				errs = append(errs, field.Invalid(p, group, msg))
			}
		}
	}
	s := a.ScoringStrategy
	if s == nil {
		return append(errs, field.Required(path.Child("scoringStrategy"), "ScoringStrategy field is required"))
	}
	path = path.Child("scoringStrategy")
	types := []string{string(config.LeastAllocated), string(config.MostAllocated),
		string(config.RequestedToCapacityRatio)}
	if !slices.Contains(types, string(s.Type)) {
		errs = append(errs, field.NotSupported(path.Child("type"), string(s.Type), types))
	}
	errs = append(errs, checkResources(path.Child("resources"), s.Resources, 100)...)
	switch r := s.RequestedToCapacityRatio; {
	case r != nil:
		errs = append(errs, checkShape(path.Child("requestedToCapacityRatio", "shape"), r.Shape)...)
	case s.Type == config.RequestedToCapacityRatio:
		errs = append(errs, field.Required(path.Child("requestedToCapacityRatio"),
			"must be specified when type is RequestedToCapacityRatio"))
	}
	return errs
}

func checkResources(path *field.Path, all []config.ResourceSpec, most int64) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, r := range all {
		switch p := path.Index(i).Child("weight"); {
		case most == 1 && r.Weight != 1:
			errs = append(errs, field.Invalid(p, r.Weight, "must be 1"))
		case r.Weight < 1 || r.Weight > most:
			errs = append(errs,
				field.Invalid(p, r.Weight, fmt.Sprintf("resource weight of %s not in valid range (0, %d]", r.Name,
					most)))
		}
		if seen[r.Name] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("name"), r.Name))
		}
		seen[r.Name] = true
	}
	return errs
}

func checkShape(path *field.Path, shape []config.UtilizationShapePoint) field.ErrorList {
	if len(shape) == 0 {
		return field.ErrorList{field.Required(path, "at least one point must be specified")}
	}
	var errs field.ErrorList
	for i, p := range shape {
		if i > 0 && shape[i-1].Utilization >= p.Utilization {
			errs = append(errs, field.Invalid(path.Index(i).Child("utilization"), p.Utilization,
				"values must be sorted in increasing order"))
		}
	}
	for i, p := range shape {
		if p.Utilization < 0 || p.Utilization > 100 {
			errs = append(errs, field.Invalid(path.Index(i).Child("utilization"), p.Utilization,
				"not in valid range [0, 100]"))
		}
		if p.Score < 0 || p.Score > 10 {
			errs = append(errs, field.Invalid(path.Index(i).Child("score"), p.Score, "not in valid range [0, 10]"))
		}
	}
	return errs
}

func checkBalanced(path *field.Path, a *config.NodeResourcesBalancedAllocationArgs) field.ErrorList {
	return checkResources(path.Child("resources"), a.Resources, 1)
}

func completeSpread(a *config.PodTopologySpreadArgs) {
	if a.DefaultingType == "" {
		a.DefaultingType = config.SystemDefaulting
	}
}

func checkSpread(path *field.Path, a *config.PodTopologySpreadArgs) field.ErrorList {
	var errs field.ErrorList
	types := []string{string(config.SystemDefaulting), string(config.ListDefaulting)}
	if !slices.Contains(types, string(a.DefaultingType)) {
		errs = append(errs, field.NotSupported(path.Child("defaultingType"), string(a.DefaultingType), types))
	}
	list := path.Child("defaultConstraints")
	if a.DefaultingType == config.SystemDefaulting && len(a.DefaultConstraints) > 0 {
		errs = append(errs, field.Invalid(path.Child("defaultingType"), string(a.DefaultingType),
			"when .defaultConstraints are not empty"))
	}
	seen := map[string]bool{}
	for i, c := range a.DefaultConstraints {
		errs = append(errs, checkConstraint(list.Index(i), c)...)
		pair := fmt.Sprintf("{%s, %s}", c.TopologyKey, c.WhenUnsatisfiable)
		if seen[pair] {
			errs = append(errs, field.Duplicate(list.Index(i), pair))
		}
		seen[pair] = true
	}
	return errs
}

func checkConstraint(p *field.Path, c v1.TopologySpreadConstraint) field.ErrorList {
	var errs field.ErrorList
	if c.MaxSkew <= 0 {
		errs = append(errs, field.Invalid(p.Child("maxSkew"), c.MaxSkew, "not in valid range (0, inf)"))
	}
	if key := p.Child("topologyKey"); c.TopologyKey == "" {
		errs = append(errs, field.Required(key, "can not be empty"))
	} else {
		for _, msg := range validation.IsQualifiedName(c.TopologyKey) {
			errs = append(errs, field.Invalid(key, c.TopologyKey, msg))
		}
	}
	switch at := p.Child("whenUnsatisfiable"); c.WhenUnsatisfiable {
	case v1.DoNotSchedule, v1.ScheduleAnyway:
	case "":
		errs = append(errs, field.Required(at, "can not be empty"))
	default:
		errs = append(errs, field.NotSupported(at, string(c.WhenUnsatisfiable),
			[]string{string(v1.DoNotSchedule), string(v1.ScheduleAnyway)}))
	}
	if c.LabelSelector != nil {
		errs = append(errs,
			field.Forbidden(p.Child("labelSelector"),
				"constraint must not define a selector, as they deduced for each pod"))
	}
	return errs
}

func completeInterPod(a *config.InterPodAffinityArgs) {
	if a.HardPodAffinityWeight == nil {
		a.HardPodAffinityWeight = new(int32(1))
	}
}

func checkInterPod(path *field.Path, a *config.InterPodAffinityArgs) field.ErrorList {
	if w := *a.HardPodAffinityWeight; w < 0 || w > 100 {
		return field.ErrorList{field.Invalid(path.Child("hardPodAffinityWeight"), w, "not in valid range [0, 100]")}
	}
	return nil
}

func completeVolumes(a *config.VolumeBindingArgs) {
	if a.BindTimeoutSeconds == nil {
		a.BindTimeoutSeconds = new(int64(600))
	}
	if len(a.Shape) == 0 {
		a.Shape = []config.UtilizationShapePoint{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}}
	}
}

func checkVolumes(path *field.Path, a *config.VolumeBindingArgs) field.ErrorList {
	var errs field.ErrorList
	if n := *a.BindTimeoutSeconds; n < 0 {
		errs = append(errs, field.Invalid(path.Child("bindTimeoutSeconds"), n,
			"invalid BindTimeoutSeconds, should not be a negative value"))
	}
	return append(errs, checkShape(path.Child("shape"), a.Shape)...)
}

func completePreemption(a *config.DefaultPreemptionArgs) {
	if a.MinCandidateNodesPercentage == nil {
		a.MinCandidateNodesPercentage = new(int32(10))
	}
	if a.MinCandidateNodesAbsolute == nil {
		a.MinCandidateNodesAbsolute = new(int32(100))
	}
}

func checkPreemption(path *field.Path, a *config.DefaultPreemptionArgs) field.ErrorList {
	var errs field.ErrorList
	percent, absolute := *a.MinCandidateNodesPercentage, *a.MinCandidateNodesAbsolute
	if percent < 0 || percent > 100 {
		errs = append(errs, field.Invalid(path.Child("minCandidateNodesPercentage"), percent,
			"not in valid range [0, 100]"))
	}
	if absolute < 0 {
		errs = append(errs, field.Invalid(path.Child("minCandidateNodesAbsolute"), absolute,
			"not in valid range [0, inf)"))
	}
	if percent == 0 && absolute == 0 {
		errs = append(errs, field.Invalid(path.Child("minCandidateNodesPercentage"), percent,
			"cannot be zero at the same time as minCandidateNodesAbsolute"),
			field.Invalid(path.Child("minCandidateNodesAbsolute"), absolute,
				"cannot be zero at the same time as minCandidateNodesPercentage"))
	}
	return errs
}

func completeDevices(a *config.DynamicResourcesArgs) {
	if a.FilterTimeout == nil {
		a.FilterTimeout = &metav1.Duration{Duration: config.DynamicResourcesFilterTimeoutDefault}
	}
	if a.BindingTimeout == nil {
		a.BindingTimeout = &metav1.Duration{Duration: config.DynamicResourcesBindingTimeoutDefault}
	}
}

func checkDevices(path *field.Path, a *config.DynamicResourcesArgs) field.ErrorList {
	var errs field.ErrorList
	if t := a.FilterTimeout; t != nil && t.Duration < 0 {
		errs = append(errs, field.Invalid(path.Child("filterTimeout"), t.Duration.String(), "must be zero or positive"))
	}
	if t := a.BindingTimeout; t != nil && t.Duration < time.Second {
		errs = append(errs, field.Invalid(path.Child("bindingTimeout"), t.Duration.String(),
			"must be at least 1 second"))
	}
	return errs
}
