package endpoints

import (
	"fmt"
	"maps"
	"net/netip"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	library "k8s.io/endpointslice"
	"k8s.io/endpointslice/util"
)

const (
	// maxCapacity bounds the addresses of an Endpoints object; the rest is dropped, with an
	// annotation, as upstream.
	maxCapacity = 1000
	// managedBy is the label that names the writer, and its value for this controller.
	managedBy, manager = "endpoints.kubernetes.io/managed-by", "endpoint-controller"
)

// DesiredEndpoints returns the Endpoints object of a Service with these Pods; have is the existing
// one, or nil.
func DesiredEndpoints(service *corev1.Service, pods []*corev1.Pod, have *corev1.Endpoints) *corev1.Endpoints {
	out := &corev1.Endpoints{}
	out.Name, out.Namespace = service.Name, service.Namespace
	if have != nil {
		out = have.DeepCopy()
	}
	out.Labels = maps.Clone(service.Labels)
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	out.Labels[managedBy] = manager
	delete(out.Labels, corev1.IsHeadlessService)
	if service.Spec.ClusterIP == corev1.ClusterIPNone {
		out.Labels[corev1.IsHeadlessService] = ""
	}
	subsets, cut := subsetsOf(service, pods)
	out.Subsets = subsets
	if cut {
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[corev1.EndpointsOverCapacity] = "truncated"
	} else {
		delete(out.Annotations, corev1.EndpointsOverCapacity)
	}
	return out
}

// portGroup collects addresses with the same ports.
type portGroup struct {
	ports          []corev1.EndpointPort
	ready, unready []corev1.EndpointAddress
}

func subsetsOf(service *corev1.Service, pods []*corev1.Pod) (subsets []corev1.EndpointSubset, cut bool) {
	groups := map[string]*portGroup{}
	pods = append([]*corev1.Pod(nil), pods...)
	sort.Slice(pods, func(i, j int) bool { return pods[i].Name < pods[j].Name })
	n := 0
	for _, p := range pods {
		address, ok := addressOf(service, p)
		if !ok || !util.ShouldPodBeInEndpoints(p, service.Spec.PublishNotReadyAddresses) {
			continue
		}
		if n++; n > maxCapacity {
			cut = true
			continue
		}
		for key, ports := range portsOf(service, p) {
			g := groups[key]
			if g == nil {
				g = &portGroup{ports: ports}
				groups[key] = g
			}
			if service.Spec.PublishNotReadyAddresses || util.IsPodReady(p) {
				g.ready = append(g.ready, address)
			} else {
				g.unready = append(g.unready, address)
			}
		}
	}
	keys := make([]string, 0, len(groups))
	for k := range groups {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		g := groups[k]
		byIP(g.ready)
		byIP(g.unready)
		subsets = append(subsets, corev1.EndpointSubset{Addresses: g.ready, NotReadyAddresses: g.unready,
			Ports: g.ports})
	}
	return subsets, cut
}

func byIP(a []corev1.EndpointAddress) {
	sort.SliceStable(a, func(i, j int) bool { return a[i].IP < a[j].IP })
}

// portsOf returns the Service's ports as the Pod has them: a port that the Pod does not name is
// left out. A headless Service may have none.
func portsOf(service *corev1.Service, p *corev1.Pod) map[string][]corev1.EndpointPort {
	if len(service.Spec.Ports) == 0 {
		if service.Spec.ClusterIP == corev1.ClusterIPNone {
			return map[string][]corev1.EndpointPort{"": nil}
		}
		return nil
	}
	var ports []corev1.EndpointPort
	var key strings.Builder
	for i := range service.Spec.Ports {
		sp := &service.Spec.Ports[i]
		number, err := library.FindPort(p, sp)
		if err != nil {
			continue
		}
		ports = append(ports, corev1.EndpointPort{Name: sp.Name, Port: int32(number), Protocol: sp.Protocol,
			AppProtocol: sp.AppProtocol})
		fmt.Fprintf(&key, "%s/%s/%d,", sp.Name, sp.Protocol, number)
	}
	if len(ports) == 0 {
		return nil
	}
	return map[string][]corev1.EndpointPort{key.String(): ports}
}

// addressOf returns the Pod's address in the Service's first IP family.
func addressOf(service *corev1.Service, p *corev1.Pod) (corev1.EndpointAddress, bool) {
	v6 := len(service.Spec.IPFamilies) > 0 && service.Spec.IPFamilies[0] == corev1.IPv6Protocol
	for _, ip := range p.Status.PodIPs {
		a, err := netip.ParseAddr(ip.IP)
		if err != nil || a.Is6() != v6 || a.IsLoopback() || a.IsLinkLocalUnicast() {
			continue
		}
		node := p.Spec.NodeName
		out := corev1.EndpointAddress{IP: ip.IP, NodeName: &node, TargetRef: &corev1.ObjectReference{Kind: "Pod",
			Namespace: p.Namespace, Name: p.Name, UID: p.UID}}
		if util.ShouldSetHostname(p, service) {
			out.Hostname = p.Spec.Hostname
		}
		return out, true
	}
	return corev1.EndpointAddress{}, false
}
