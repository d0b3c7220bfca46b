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

	"github.com/gantry-project/gantry/internal/pod/fit"
)

// inMemory is the name of a claim for extended resources that is not written yet; it is no valid name.
const inMemory = "<extended-resources>"

// extended is what a Pod asks of extended resources that device classes serve (KEP-5004).
type extended struct {
	asked map[v1.ResourceName]int64
	stale *resourceapi.ResourceClaim // made in an earlier attempt that came to nothing
}

// served is the class that serves a resource; nil for none.
func (pl *Plugin) served(name v1.ResourceName) *resourceapi.DeviceClass {
	if pl.draw == nil {
		return nil
	}
	return Serving(pl.draw, name)
}

// Serving is the class that serves an extended resource; nil for none.
func Serving(draw framework.SharedDRAManager, name v1.ResourceName) *resourceapi.DeviceClass {
	if !fit.IsExtended(name) && !isImplicit(name) {
		return nil
	}
	return draw.DeviceClassResolver().GetDeviceClass(name)
}

// isImplicit tells whether a resource names a device class itself: deviceclass.resource.kubernetes.io/NAME.
func isImplicit(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), resourceapi.ResourceDeviceClassPrefix)
}

func (pl *Plugin) servesExtended(p *v1.Pod) bool {
	if pl.draw == nil {
		return false
	}
	for _, list := range [][]v1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			for name, q := range list[i].Resources.Requests {
				if !q.IsZero() && pl.served(name) != nil {
					return true
				}
			}
		}
	}
	return false
}

// extendedOf is nil when no extended resource of the Pod is served by a class.
func (pl *Plugin) extendedOf(p *v1.Pod) (*extended, error) {
	if !pl.servesExtended(p) {
		return nil, nil
	}
	e := &extended{asked: map[v1.ResourceName]int64{}}
	for name, q := range resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{}) {
		if !q.IsZero() && (fit.IsExtended(name) || isImplicit(name)) {
			e.asked[name] = q.Value()
		}
	}
	all, err := pl.draw.ResourceClaims().List()
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if c.Namespace == p.Namespace && c.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" && metav1.IsControlledBy(c, p) {
			e.stale = c
		}
	}
	return e, nil
}

// extend makes the claim for what the node does not offer through a device plugin.
func (pl *Plugin) extend(e *extended, found *seat, p *v1.Pod, n framework.NodeInfo) *framework.Status {
	if e.stale != nil {
		return unresolvable("cannot schedule extended resource claim")
	}
	need := map[v1.ResourceName]*resourceapi.DeviceClass{}
	for name := range e.asked {
		has, known := n.GetAllocatable().GetScalarResources()[name]
		class := pl.served(name)
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
	found.own = &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, Name: inMemory, GenerateName: p.Name + "-extended-resources-", UID: inMemory + p.UID,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true)}},
		Annotations:     map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
	}}
	found.own.Spec.Devices.Requests, found.mapping = requestsFor(p, need)
	return nil
}

// wanting is a container that asks for an extended resource.
type wanting struct {
	container int // among init containers, then containers
	name      string
	order     int // of the resource among the container's, by name
	count     int64
}

// requestsFor turns extended resources into requests. Containers that live as long as the Pod have devices of their own; init containers that end take turns, with
// the devices of containers after them and as many more as the most demanding one needs.
func requestsFor(p *v1.Pod, classes map[v1.ResourceName]*resourceapi.DeviceClass) ([]resourceapi.DeviceRequest, []v1.ContainerExtendedResourceRequest) {
	var requests []resourceapi.DeviceRequest
	var mapping []v1.ContainerExtendedResourceRequest
	names := make([]v1.ResourceName, 0, len(classes))
	for name := range classes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		staying, passing := wantingOf(p, name)
		point := func(w wanting, request string) {
			mapping = append(mapping, v1.ContainerExtendedResourceRequest{ContainerName: w.name, ResourceName: string(name), RequestName: request})
		}
		for _, w := range staying {
			requests = append(requests, requestOf(w, classes[name], w.count))
			point(w, w.request())
		}
		most, rest := wanting{}, int64(0)
		for _, w := range passing {
			if left := w.count - borrowed(w, staying, nil); left > rest {
				most, rest = w, left
			}
		}
		for _, w := range passing {
			lent := borrowed(w, staying, func(from wanting) { point(w, from.request()) })
			if lent < w.count {
				point(w, most.request())
			}
		}
		if rest > 0 {
			requests = append(requests, requestOf(most, classes[name], rest))
		}
	}
	slices.SortFunc(requests, func(a, b resourceapi.DeviceRequest) int { return cmp.Compare(a.Name, b.Name) })
	return requests, mapping
}

// borrowed sums the devices of containers that start after an init container, as far as it needs them.
func borrowed(w wanting, staying []wanting, use func(wanting)) int64 {
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

func (w wanting) request() string {
	return fmt.Sprintf("container-%d-request-%d", w.container, w.order)
}

func requestOf(w wanting, class *resourceapi.DeviceClass, count int64) resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: w.request(), Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: class.Name, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
	}}
}

// wantingOf lists the containers that ask for the resource: those that stay, and init containers that pass.
func wantingOf(p *v1.Pod, name v1.ResourceName) (staying, passing []wanting) {
	all := slices.Concat(p.Spec.InitContainers, p.Spec.Containers)
	for i := range all {
		q, asks := all[i].Resources.Requests[name]
		if !asks || q.IsZero() {
			continue
		}
		w := wanting{container: i, name: all[i].Name, count: q.Value()}
		for other := range all[i].Resources.Requests {
			if other < name {
				w.order++
			}
		}
		sidecar := all[i].RestartPolicy != nil && *all[i].RestartPolicy == v1.ContainerRestartPolicyAlways
		if i < len(p.Spec.InitContainers) && !sidecar {
			passing = append(passing, w)
		} else {
			staying = append(staying, w)
		}
	}
	return staying, passing
}
