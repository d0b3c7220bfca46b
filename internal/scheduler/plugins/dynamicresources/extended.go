package dynamicresources

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/pod/fit"
)

// specialClaimUID is the name of a claim for extended resources that is not written yet; it is no
// valid name.
const specialClaimUID = "<extended-resources>"

// extendedResources is what a Pod asks of extended resources that device classes serve (KEP-5004).
type extendedResources struct {
	requested map[v1.ResourceName]int64
	oldClaim  *resourceapi.ResourceClaim // made in an earlier attempt that came to nothing
}

// deviceClassFor is the class that serves a resource; nil for none.
func (pl *Plugin) deviceClassFor(name v1.ResourceName) *resourceapi.DeviceClass {
	if pl.draManager == nil {
		return nil
	}
	return DeviceClassFor(pl.draManager, name)
}

// DeviceClassFor is the class that serves an extended resource; nil for none.
func DeviceClassFor(draManager framework.SharedDRAManager, name v1.ResourceName) *resourceapi.DeviceClass {
	if !fit.IsExtended(name) && !isImplicit(name) {
		return nil
	}
	return draManager.DeviceClassResolver().GetDeviceClass(name)
}

// isImplicit tells whether a resource names a device class itself:
// deviceclass.resource.kubernetes.io/NAME.
func isImplicit(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), resourceapi.ResourceDeviceClassPrefix)
}

func (pl *Plugin) servesExtended(p *v1.Pod) bool {
	if pl.draManager == nil {
		return false
	}
	for _, list := range [][]v1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			for name, q := range list[i].Resources.Requests {
				if !q.IsZero() && pl.deviceClassFor(name) != nil {
					return true
				}
			}
		}
	}
	return false
}

// extendedOf is nil when no extended resource of the Pod is served by a class.
func (pl *Plugin) extendedOf(p *v1.Pod) (*extendedResources, error) {
	if !pl.servesExtended(p) {
		return nil, nil
	}
	e := &extendedResources{requested: map[v1.ResourceName]int64{}}
	for name, q := range resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{}) {
		if !q.IsZero() && (fit.IsExtended(name) || isImplicit(name)) {
			e.requested[name] = q.Value()
		}
	}
	all, err := pl.draManager.ResourceClaims().List()
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if c.Namespace == p.Namespace && c.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" &&
			metav1.IsControlledBy(c, p) {
			e.oldClaim = c
		}
	}
	return e, nil
}

// allocateExtended makes the claim for what the node does not offer through a device plugin.
func (pl *Plugin) allocateExtended(e *extendedResources, found *nodeAllocation, p *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	if e.oldClaim != nil {
		return unresolvable("cannot schedule extended resource claim")
	}
	need := map[v1.ResourceName]*resourceapi.DeviceClass{}
	for name := range e.requested {
		has, known := n.GetAllocatable().GetScalarResources()[name]
		class := pl.deviceClassFor(name)
		switch {
		case class != nil && has == 0:
			need[name] = class
		case !known:
			return unresolvable("cannot fit resource")
		}
	}
	if len(need) == 0 {
		return nil
	}
	found.specialClaim = &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, Name: specialClaimUID, GenerateName: p.Name + "-extended-resources-",
		UID: specialClaimUID + p.UID,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID,
			Controller: new(true)}},
		Annotations: map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
	}}
	found.specialClaim.Spec.Devices.Requests, found.mapping = requestsFor(p, need)
	return nil
}

// containerRequest is a container that asks for an extended resource.
type containerRequest struct {
	container int // among init containers, then containers
	name      string
	order     int // of the resource among the container's, by name
	count     int64
}

// requestsFor turns extended resources into requests. Containers that live as long as the Pod have
// devices of their own; init containers that end take turns, with the devices of containers after
// them and as many more as the most demanding one needs.
func requestsFor(p *v1.Pod,
	classes map[v1.ResourceName]*resourceapi.DeviceClass) ([]resourceapi.DeviceRequest,
	[]v1.ContainerExtendedResourceRequest) {
	var requests []resourceapi.DeviceRequest
	var mapping []v1.ContainerExtendedResourceRequest
	names := make([]v1.ResourceName, 0, len(classes))
	for name := range classes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		staying, passing := containerRequestsOf(p, name)
		point := func(w containerRequest, request string) {
			mapping = append(mapping, v1.ContainerExtendedResourceRequest{ContainerName: w.name,
				ResourceName: string(name), RequestName: request})
		}
		for _, w := range staying {
			requests = append(requests, deviceRequestOf(w, classes[name], w.count))
			point(w, w.requestName())
		}
		most, rest := containerRequest{}, int64(0)
		for _, w := range passing {
			if left := w.count - reusedFromInit(w, staying, nil); left > rest {
				most, rest = w, left
			}
		}
		for _, w := range passing {
			lent := reusedFromInit(w, staying, func(from containerRequest) { point(w, from.requestName()) })
			if lent < w.count {
				point(w, most.requestName())
			}
		}
		if rest > 0 {
			requests = append(requests, deviceRequestOf(most, classes[name], rest))
		}
	}
	slices.SortFunc(requests, func(a, b resourceapi.DeviceRequest) int { return cmp.Compare(a.Name, b.Name) })
	return requests, mapping
}

// reusedFromInit sums the devices of containers that start after an init container, as far as it
// needs them.
func reusedFromInit(w containerRequest, staying []containerRequest, use func(containerRequest)) int64 {
	var sum int64
	for _, s := range staying {
		if s.container < w.container || sum >= w.count {
			continue
		}
		if sum += s.count; use != nil {
			use(s)
		}
	}
	return sum
}

func (w containerRequest) requestName() string {
	return fmt.Sprintf("container-%d-request-%d", w.container, w.order)
}

func deviceRequestOf(w containerRequest, class *resourceapi.DeviceClass, count int64) resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: w.requestName(), Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: class.Name, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
	}}
}

// containerRequestsOf lists the containers that ask for the resource: those that stay, and init
// containers that pass.
func containerRequestsOf(p *v1.Pod, name v1.ResourceName) (staying, passing []containerRequest) {
	all := slices.Concat(p.Spec.InitContainers, p.Spec.Containers)
	for i := range all {
		q, asks := all[i].Resources.Requests[name]
		if !asks || q.IsZero() {
			continue
		}
		w := containerRequest{container: i, name: all[i].Name, count: q.Value()}
		for other := range all[i].Resources.Requests {
			if other < name {
				w.order++
			}
		}
		if i < len(p.Spec.InitContainers) && !pod.IsSidecar(&all[i]) {
			passing = append(passing, w)
		} else {
			staying = append(staying, w)
		}
	}
	return staying, passing
}
