package podspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	helper "k8s.io/component-helpers/resource"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// sorted returns the names of a resource list in order.
func sorted(list v1.ResourceList) []v1.ResourceName { return slices.Sorted(maps.Keys(list)) }

// requirements validates a container's requests, limits and claims.
func (j *validator) requirements(r v1.ResourceRequirements, path *field.Path) {
	j.requirementsOf(r, path, ValidateContainerResourceName)
}

// requirementsOf validates requests, limits and claims whose resource names pass the given check.
func (j *validator) requirementsOf(r v1.ResourceRequirements, path *field.Path,
	named func(string, *field.Path) field.ErrorList) {
	limits, requests := path.Child("limits"), path.Child("requests")
	compute, huge := false, false
	pages := func(name v1.ResourceName, q resource.Quantity, at *field.Path) {
		if isHugepage(name) {
			huge = true
			if !isMultipleOfPageSize(name, q) {
				j.Invalid(at, q.String(), fmt.Sprintf("%s is not positive integer multiple of %s", q.String(), name))
			}
		}
		compute = compute || name == v1.ResourceCPU || name == v1.ResourceMemory
	}
	for _, name := range sorted(r.Limits) {
		at := limits.Key(string(name))
		j.Add(named(string(name), at)...)
		j.Add(ValidateQuantity(name, r.Limits[name], at)...)
		pages(name, r.Limits[name], at)
	}
	for _, name := range sorted(r.Requests) {
		q, at := r.Requests[name], requests.Key(string(name))
		j.Add(named(string(name), at)...)
		j.Add(ValidateQuantity(name, q, at)...)
		j.requestWithinLimit(name, q, r.Limits, path)
		pages(name, q, at)
	}
	if huge && !compute {
		j.Forbidden(path, "HugePages require cpu or memory")
	}
	j.claimNames(r.Claims, path.Child("claims"))
}

// requestWithinLimit compares a request with its limit, which must equal it for resources that
// cannot be overcommitted.
func (j *validator) requestWithinLimit(name v1.ResourceName, q resource.Quantity, limits v1.ResourceList,
	path *field.Path) {
	limit, ok := limits[name]
	switch {
	case !ok && !IsOvercommitAllowed(name):
		j.Required(path.Child("limits"), "Limit must be set for non overcommitable resources")
	case !ok:
	case q.Cmp(limit) != 0 && !IsOvercommitAllowed(name):
		j.Invalid(path.Child("requests"), q.String(), fmt.Sprintf("must be equal to %s limit of %s", name,
			limit.String()))
	case q.Cmp(limit) > 0:
		j.Invalid(path.Child("requests"), q.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name,
			limit.String()))
	}
}

func (j *validator) claimNames(claims []v1.ResourceClaim, path *field.Path) {
	seen := sets.New[string]() // CLAIM for a whole claim, CLAIM/REQUEST for a part of it
	for i, c := range claims {
		at := path.Index(i)
		if c.Name == "" {
			j.Required(at, "")
			continue
		}
		if seen.Has(c.Name) {
			j.Add(field.Duplicate(at, c.Name))
		} else {
			seen.Insert(j.claimRequest(c, seen, at))
		}
		if !j.claims.Has(c.Name) {
			e := field.NotFound(at, c.Name)
			e.Detail = "must be one of the names in pod.spec.resourceClaims"
			if len(j.claims) == 0 {
				e.Detail += " which is empty"
			} else {
				e.Detail += ": " + strings.Join(sets.List(j.claims), ", ")
			}
			j.Add(e)
		}
	}
}

// claimRequest validates one claim of a container that is not in seen yet, and returns its key in
// seen.
func (j *validator) claimRequest(c v1.ResourceClaim, seen sets.Set[string], at *field.Path) string {
	if c.Request != "" {
		key := c.Name + "/" + c.Request
		j.DNSLabel(at.Child("request"), c.Request)
		if seen.Has(key) {
			j.Add(field.Duplicate(at, key))
		}
		return key
	}
	for _, key := range sets.List(seen) {
		if strings.HasPrefix(key, c.Name+"/") {
			j.Add(field.Duplicate(at, c.Name))
		}
	}
	return c.Name
}

// podResources validates pod-level resources, by themselves and against the containers'.
func (j *validator) podResources(spec *field.Path) {
	r := j.spec.Resources
	if r == nil {
		return
	}
	path := spec.Child("resources")
	if o := j.spec.OS; o != nil && o.Name == v1.Windows {
		j.Forbidden(path, "may not be set for a windows pod")
		return
	}
	if r.Claims != nil {
		j.Forbidden(path.Child("claims"), "claims may not be set for Resources at pod-level")
	}
	j.requirementsOf(*r, path, podResourceName)
	j.validatePodLevelResources(spec)
}

// podResourceName validates the name of a resource at pod level.
func podResourceName(name string, path *field.Path) field.ErrorList {
	errs := ValidateResourceName(name, path)
	if len(errs) == 0 && !helper.IsSupportedPodLevelResource(v1.ResourceName(name)) {
		errs = append(errs, field.NotSupported(path, name, []string{"cpu", "hugepages-", "memory"}))
	}
	return errs
}

// ValidateOverhead validates the overhead of a RuntimeClass. path is that of the overhead.
func ValidateOverhead(list v1.ResourceList, path *field.Path) field.ErrorList {
	var j validator
	j.requirements(v1.ResourceRequirements{Limits: list}, path)
	return j.List()
}

// validatePodLevelResources checks that pod-level requests cover the containers' requests and that
// no container's limit exceeds the Pod's.
func (j *validator) validatePodLevelResources(spec *field.Path) {
	r := j.spec.Resources
	sum := helper.AggregateContainerRequests(&v1.Pod{Spec: *j.spec}, helper.PodResourcesOptions{})
	for _, name := range sorted(sum) {
		request, ok := r.Requests[name]
		if total := sum[name]; ok && total.Cmp(request) > 0 {
			j.Invalid(spec.Child("resources", "requests").Key(string(name)), request.String(),
				fmt.Sprintf("must be greater than or equal to aggregate container requests of %s", total.String()))
		}
	}
	sum = helper.AggregateContainerLimits(&v1.Pod{Spec: *j.spec}, helper.PodResourcesOptions{})
	for _, name := range sorted(sum) {
		most, ok := r.Limits[name]
		if total := sum[name]; ok && isHugepage(name) && total.Cmp(most) > 0 {
			j.Invalid(spec.Child("resources", "limits").Key(string(name)), most.String(),
				fmt.Sprintf("must be greater than or equal to aggregate container limits of %s", total.String()))
		}
	}
	for i := range j.spec.Containers {
		limits := j.spec.Containers[i].Resources.Limits
		for _, name := range sorted(limits) {
			most, ok := r.Limits[name]
			if q := limits[name]; ok && q.Cmp(most) > 0 {
				// Upstream's path is below the pod-level resources.
				at := spec.Child("resources", "containers").Index(i).Key(string(name)).Child("limits")
				j.Invalid(at, q.String(), fmt.Sprintf("must be less than or equal to pod limits of %s", most.String()))
			}
		}
	}
}

// ValidateResourceName checks for a qualified name, which must be a known one if it has no domain.
func ValidateResourceName(name string, path *field.Path) field.ErrorList {
	var f typed.Errors
	f.InvalidEach(path, name, validation.IsQualifiedName(name))
	if f.Len() == 0 && !strings.Contains(name, "/") && !standardResource(name) {
		f.Invalid(path, name, "must be a standard resource type or fully qualified")
	}
	return f.List()
}

// ValidateContainerResourceName validates the name of a resource of a container.
func ValidateContainerResourceName(name string, path *field.Path) field.ErrorList {
	var f typed.Errors
	f.Add(ValidateResourceName(name, path)...)
	switch {
	case !strings.Contains(name, "/"):
		if !containerResource(name) {
			f.Invalid(path, name, "must be a standard resource for containers")
		}
	case !isNativeResource(name) && !isExtendedResourceName(name):
		f.Invalid(path, name, "doesn't follow extended resource name standard")
	}
	return f.List()
}

// ValidateQuantity checks for a quantity that is not negative, and an integer for extended and
// counted resources.
func ValidateQuantity(name v1.ResourceName, q resource.Quantity, path *field.Path) field.ErrorList {
	var f typed.Errors
	if q.Sign() < 0 {
		f.Invalid(path, q.String(), "must be greater than or equal to 0")
	}
	const thousand = 1000
	if (countedResource(string(name)) || isExtendedResourceName(string(name))) && q.MilliValue()%thousand != 0 {
		f.Invalid(path, q.String(), "must be an integer")
	}
	return f.List()
}

func containerResource(name string) bool {
	return name == "cpu" || name == "memory" || name == "ephemeral-storage" || strings.HasPrefix(name,
		v1.ResourceHugePagesPrefix)
}

// countedResource reports whether a resource is a number of objects in a quota.
func countedResource(name string) bool {
	switch name {
	case "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
		"persistentvolumeclaims", "services.nodeports", "services.loadbalancers":
		return true
	}
	return false
}

func standardResource(name string) bool {
	switch name {
	case "storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage", "requests.storage", "limits.cpu",
		"limits.memory", "limits.ephemeral-storage":
		return true
	}
	return containerResource(name) || countedResource(name) || strings.HasPrefix(name,
		v1.ResourceRequestsHugePagesPrefix)
}

func isNativeResource(name string) bool {
	return !strings.Contains(name, "/") || strings.Contains(name, v1.ResourceDefaultNamespacePrefix)
}

// isExtendedResourceName reports whether a name is an extended resource's, such as example.com/gpu.
func isExtendedResourceName(name string) bool {
	return !isNativeResource(name) && !strings.HasPrefix(name, v1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(v1.DefaultResourceRequestsPrefix+name)) == 0
}

// IsOvercommitAllowed reports whether the limit of a resource may exceed its request.
func IsOvercommitAllowed(name v1.ResourceName) bool {
	return isNativeResource(string(name)) && !isHugepage(name)
}

// isMultipleOfPageSize reports whether a hugepage quantity is a multiple of the page size in its
// name.
func isMultipleOfPageSize(name v1.ResourceName, q resource.Quantity) bool {
	page, err := resource.ParseQuantity(strings.TrimPrefix(string(name), v1.ResourceHugePagesPrefix))
	if err != nil || page.Sign() <= 0 || page.MilliValue()%1000 != 0 || q.Sign() <= 0 {
		return false
	}
	return q.Value()%page.Value() == 0
}

// SortedResources returns the names of a resource list in order.
func SortedResources(list v1.ResourceList) []v1.ResourceName { return sorted(list) }
