package podspec

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"
)

// DefaultPodLevel sets pod-level resources where some are set: hugepage limits from the containers'
// limits; requests from the sum of the containers' requests, else from the pod-level limit. Only
// resources that are supported at pod level count.
func DefaultPodLevel(s *v1.PodSpec) {
	r := s.Resources
	if r == nil || len(r.Limits) == 0 && len(r.Requests) == 0 {
		return
	}
	p := &v1.Pod{Spec: *s}
	for name, q := range helper.AggregateContainerLimits(p, helper.PodResourcesOptions{}) {
		if isHugepage(name) {
			addIfMissing(&r.Limits, name, q)
		}
	}
	for name, q := range helper.AggregateContainerRequests(p, helper.PodResourcesOptions{}) {
		if helper.IsSupportedPodLevelResource(name) && !isHugepage(name) {
			addIfMissing(&r.Requests, name, q)
		}
	}
	for name, q := range r.Limits {
		if helper.IsSupportedPodLevelResource(name) {
			addIfMissing(&r.Requests, name, q)
		}
	}
}

// addIfMissing adds a quantity to a list unless it has the resource.
func addIfMissing(list *v1.ResourceList, name v1.ResourceName, q resource.Quantity) {
	if _, ok := (*list)[name]; ok {
		return
	}
	if *list == nil {
		*list = v1.ResourceList{}
	}
	(*list)[name] = q.DeepCopy()
}

func isHugepage(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// DefaultPodLevelLimits sets a pod-level limit for each resource with a pod-level request of which
// all containers have a limit: the containers' sum, or the request if that is more.
func DefaultPodLevelLimits(s *v1.PodSpec) {
	r := s.Resources
	if r == nil {
		return
	}
	sum := helper.AggregateContainerLimits(&v1.Pod{Spec: *s}, helper.PodResourcesOptions{})
	for name, request := range r.Requests {
		limit, ok := sum[name]
		if !ok || !helper.IsSupportedPodLevelResource(name) || !allLimit(s, name) {
			continue
		}
		if request.Cmp(limit) > 0 {
			limit = request
		}
		addIfMissing(&r.Limits, name, limit)
	}
}

// allLimit reports whether each container, init containers among them, has a limit for a resource.
func allLimit(s *v1.PodSpec, name v1.ResourceName) bool {
	all := true
	visitContainers(s, func(c *v1.Container) {
		_, ok := c.Resources.Limits[name]
		all = all && ok
	})
	for i := range s.EphemeralContainers {
		_, ok := s.EphemeralContainers[i].Resources.Limits[name]
		all = all && ok
	}
	return all
}
