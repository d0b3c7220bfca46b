package eviction

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Annotations of the event Evicted.
const (
	OffendingContainersKey      = "offending_containers"
	OffendingContainersUsageKey = "offending_containers_usage"
	OffendingPodKey             = "offending_pod"
	OffendingPodUsageKey        = "offending_pod_usage"
	StarvedResourceKey          = "starved_resource"
)

// message is upstream's text about a victim, and the annotations of its event.
func message(d *Decision, r Ranked, in In) (string, map[string]string) {
	var b strings.Builder
	notes := map[string]string{}
	fmt.Fprintf(&b, "The node was low on resource: %v. ", d.Resource)
	if o, ok := in.Observations[d.Target.Signal]; ok {
		threshold, available := d.Target.Value.Of(o.Capacity), rowOf(d.Target.Signal).quantity(o.Available)
		fmt.Fprintf(&b, "Threshold quantity: %v, available: %v. ", &threshold, &available)
	}
	if !r.Measured {
		return b.String(), notes
	}
	use := in.Use[r.Pod.UID]
	if request, ok := podLevelRequest(r.Pod, d.Resource); ok && use.Memory != nil {
		used := memoryQuantity(use.Memory)
		fmt.Fprintf(&b, "Pod %s was using %s, request is %s, has larger consumption of %v. ", r.Pod.Name, used.String(),
			request.String(), d.Resource)
		notes[OffendingPodKey], notes[OffendingPodUsageKey] = r.Pod.Name, used.String()
	}
	var names, usages []string
	for _, c := range use.Containers {
		used, request := c.of(d.Resource), containerRequest(r.Pod, c.Name, d.Resource)
		if used == nil || request == nil || used.Cmp(*request) <= 0 {
			continue
		}
		fmt.Fprintf(&b, "Container %s was using %s, request is %s, has larger consumption of %v. ", c.Name,
			used.String(), request.String(), d.Resource)
		names, usages = append(names, c.Name), append(usages, used.String())
	}
	notes[OffendingContainersKey] = strings.Join(names, ",")
	notes[OffendingContainersUsageKey] = strings.Join(usages, ",")
	notes[StarvedResourceKey] = string(d.Resource)
	return b.String(), notes
}

// podLevelRequest is what spec.resources asks of memory; only memory is told of.
func podLevelRequest(p *v1.Pod, name v1.ResourceName) (resource.Quantity, bool) {
	if name != v1.ResourceMemory || !resourcehelper.IsPodLevelResourcesSet(p) {
		return resource.Quantity{}, false
	}
	q, ok := p.Spec.Resources.Requests[name]
	return q, ok
}

// of is what the container takes of a resource; nil when it was not measured or is not told of.
func (c ContainerUse) of(name v1.ResourceName) *resource.Quantity {
	switch {
	case name == v1.ResourceMemory && c.Memory != nil:
		return resource.NewQuantity(*c.Memory, resource.BinarySI)
	case name == v1.ResourceEphemeralStorage && c.Layer != nil && c.Logs != nil:
		return resource.NewQuantity(c.Layer.Bytes+c.Logs.Bytes, resource.BinarySI)
	}
	return nil
}

// containerRequest is what a container or init container requests; nil for one that is not in the
// spec, such as an ephemeral one.
func containerRequest(p *v1.Pod, name string, what v1.ResourceName) *resource.Quantity {
	for _, list := range [][]v1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				q := list[i].Resources.Requests[what]
				return &q
			}
		}
	}
	return nil
}
