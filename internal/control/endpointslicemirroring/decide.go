package endpointslicemirroring

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/endpointslice/util"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"
)

const (
	// manager is the managed-by label of mirrored slices.
	manager = "endpointslicemirroring-controller.k8s.io"
	// maxEndpointsPerSubset bounds the mirrored addresses of a subset, as upstream's default.
	maxEndpointsPerSubset = 1000
)

// ShouldMirror reports whether Endpoints are mirrored: not if they opt out, nor those of a leader
// election.
func ShouldMirror(e *corev1.Endpoints) bool {
	return e.DeletionTimestamp == nil && e.Labels[discoveryv1.LabelSkipMirror] != "true" &&
		e.Labels["endpoints.kubernetes.io/managed-by"] == "" &&
		e.Annotations["control-plane.alpha.kubernetes.io/leader"] == ""
}

// Plan is the writes of slices.
type Plan struct {
	Create, Update, Delete []*discoveryv1.EndpointSlice
	Counts                 Counts
	Warnings               []Warning
}

// Warning is an event about Endpoints of which something is not mirrored.
type Warning struct{ Reason, Message string }

// warnings are upstream's, of addresses that are left out; skipped includes the invalid.
func warnings(skipped, invalid int) (out []Warning) {
	if invalid > 0 {
		out = append(out, Warning{"InvalidIPAddress",
			fmt.Sprintf("Skipped %d invalid IP addresses when mirroring to EndpointSlices", invalid)})
	}
	if skipped > invalid {
		out = append(out, Warning{"TooManyAddressesToMirror",
			fmt.Sprintf("A max of %d addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses "+
				"were skipped", maxEndpointsPerSubset, skipped)})
	}
	return out
}

// Counts are endpoints and slices as upstream's metrics count them: endpoints that slices gain, get
// changed and lose, addresses that are not mirrored, and what there is when the plan is done.
type Counts struct {
	Added, Updated, Removed, Skipped int
	Endpoints, Slices                int
}

// count compares the endpoints of a slice, nil when there is none yet, with those wanted.
func (c *Counts) count(have *discoveryv1.EndpointSlice, want []discoveryv1.Endpoint) {
	left := util.EndpointSet{}
	for i := range want {
		left.Insert(&want[i])
	}
	c.Endpoints, c.Slices = c.Endpoints+len(left), c.Slices+1
	if have != nil {
		for i := range have.Endpoints {
			e := &have.Endpoints[i]
			switch same := left.Get(e); {
			case same == nil:
				c.Removed++
			case !util.EndpointsEqualBeyondHash(same, e):
				c.Updated++
			}
			left.Delete(e)
		}
	}
	c.Added += len(left)
}

// Next compares the slices of a Service with its Endpoints: one slice for each subset and IP
// family.
func Next(service *corev1.Service, e *corev1.Endpoints, have []*discoveryv1.EndpointSlice) Plan {
	var plan Plan
	left := map[string][]*discoveryv1.EndpointSlice{}
	for _, s := range have {
		left[keyOf(s)] = append(left[keyOf(s)], s)
	}
	wanted, skipped, invalid := slicesOf(service, e)
	plan.Counts.Skipped, plan.Warnings = skipped, warnings(skipped, invalid)
	for _, want := range wanted {
		key := keyOf(want)
		same := left[key]
		if len(same) == 0 {
			plan.Create = append(plan.Create, want)
			plan.Counts.count(nil, want.Endpoints)
			continue
		}
		s := same[0]
		left[key] = same[1:]
		plan.Counts.count(s, want.Endpoints)
		if equality.Semantic.DeepEqual(s.Endpoints, want.Endpoints) && equality.Semantic.DeepEqual(s.Labels,
			want.Labels) && equality.Semantic.DeepEqual(s.Annotations, want.Annotations) {
			continue
		}
		s = s.DeepCopy()
		s.Endpoints, s.Labels, s.Annotations = want.Endpoints, want.Labels, want.Annotations
		plan.Update = append(plan.Update, s)
	}
	for _, rest := range left {
		plan.Delete = append(plan.Delete, rest...)
	}
	sort.Slice(plan.Delete, func(i, j int) bool { return plan.Delete[i].Name < plan.Delete[j].Name })
	return plan
}

// keyOf returns the immutable part of a slice: IP family and ports, in whatever order.
func keyOf(s *discoveryv1.EndpointSlice) string {
	var ports []string
	for _, p := range s.Ports {
		ports = append(ports, fmt.Sprintf("%s/%s/%d/%s", ptr.Deref(p.Name, ""), ptr.Deref(p.Protocol, ""),
			ptr.Deref(p.Port, 0), ptr.Deref(p.AppProtocol, "")))
	}
	slices.Sort(ports)
	return string(s.AddressType) + "," + strings.Join(ports, ",")
}

// slicesOf returns the slices that Endpoints are mirrored in, how many addresses are left out, and
// how many of those are invalid.
func slicesOf(service *corev1.Service, e *corev1.Endpoints) (out []*discoveryv1.EndpointSlice, skipped, invalid int) {
	for _, subset := range repack(e.Subsets) {
		byFamily := map[discoveryv1.AddressType]*discoveryv1.EndpointSlice{}
		n := 0
		add := func(addresses []corev1.EndpointAddress, ready bool) {
			for _, a := range addresses {
				ip := netutils.ParseIPSloppy(a.IP)
				switch {
				case n >= maxEndpointsPerSubset:
					skipped++
					continue
				case ip == nil:
					skipped, invalid = skipped+1, invalid+1
					continue
				}
				n++
				family := discoveryv1.AddressTypeIPv4
				if ip.To4() == nil {
					family = discoveryv1.AddressTypeIPv6
				}
				if byFamily[family] == nil {
					byFamily[family] = newSlice(service, e, subset.Ports, family)
					out = append(out, byFamily[family])
				}
				a.IP = ip.String() // written as it is usual
				byFamily[family].Endpoints = append(byFamily[family].Endpoints, endpoint(a, ready))
			}
		}
		add(subset.Addresses, true)
		add(subset.NotReadyAddresses, false)
	}
	return out, skipped, invalid
}

func newSlice(service *corev1.Service, e *corev1.Endpoints, ports []corev1.EndpointPort,
	family discoveryv1.AddressType) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{AddressType: family}
	s.GenerateName, s.Namespace = service.Name+"-", service.Namespace
	s.Labels = maps.Clone(e.Labels)
	if s.Labels == nil {
		s.Labels = map[string]string{}
	}
	s.Labels[discoveryv1.LabelServiceName], s.Labels[discoveryv1.LabelManagedBy] = service.Name, manager
	s.Annotations = maps.Clone(e.Annotations)
	delete(s.Annotations, corev1.LastAppliedConfigAnnotation)
	delete(s.Annotations, corev1.EndpointsLastChangeTriggerTime)
	s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(e,
		corev1.SchemeGroupVersion.WithKind("Endpoints"))}
	for i := range ports {
		p := ports[i]
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Port, Protocol: &p.Protocol,
			AppProtocol: p.AppProtocol})
	}
	return s
}

func endpoint(a corev1.EndpointAddress, ready bool) discoveryv1.Endpoint {
	out := discoveryv1.Endpoint{Addresses: []string{a.IP}, NodeName: a.NodeName, TargetRef: a.TargetRef,
		Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
	if a.Hostname != "" {
		out.Hostname = &a.Hostname
	}
	return out
}
