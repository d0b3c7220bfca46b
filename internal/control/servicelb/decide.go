package servicelb

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/gantry-project/gantry/internal/node"
	"github.com/gantry-project/gantry/internal/pod"
)

// toBeDeleted is the cluster autoscaler's taint on nodes about to be removed.
const toBeDeleted = "ToBeDeletedByClusterAutoscaler"

// Input is the cluster state from which addresses are assigned.
type Input struct {
	Services []*corev1.Service
	Nodes    []*corev1.Node
	Slices   []*discoveryv1.EndpointSlice // of the Service, and of the API server's own Service
	Pods     []*corev1.Pod                // those with host ports
}

// HandlesService reports whether this controller handles a Service: of type LoadBalancer without
// loadBalancerClass.
func HandlesService(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil
}

// Ingress returns a Service's addresses, sorted; if there is none, why says so.
func Ingress(s *corev1.Service, w Input) (ingress []corev1.LoadBalancerIngress, why string) {
	if other := w.portOwner(s); other != nil {
		return nil, fmt.Sprintf("%s is what Service %s/%s has, which is older, and all load balancers share the "+
			"nodes' addresses; give one of the two other ports", shared(s, other), other.Namespace, other.Name)
	}
	var conflict []string
	var granted []netip.Addr
	nodes := w.usable(s)
	for _, n := range nodes {
		if by := w.portConflict(s, n); by != "" {
			conflict = append(conflict, by)
			continue
		}
		for _, ip := range addresses(n, s.Spec.IPFamilies) {
			if s.Spec.LoadBalancerIP != "" && s.Spec.LoadBalancerIP != ip.String() || slices.Contains(granted, ip) {
				continue
			}
			granted = append(granted, ip)
		}
	}
	switch {
	case len(granted) > 0:
	case len(conflict) > 0:
		return nil, strings.Join(conflict, "; ")
	case len(w.Nodes) == 0 ||
		len(nodes) == 0 && s.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal:
		return nil, "there are no available nodes for it"
	case len(nodes) == 0:
		return nil, "no node has a ready endpoint of it, and externalTrafficPolicy is Local"
	case s.Spec.LoadBalancerIP != "":
		return nil, fmt.Sprintf("loadBalancerIP %s is the address of no node that can be used", s.Spec.LoadBalancerIP)
	default:
		return nil, fmt.Sprintf("no node has an address of its families (%v)", s.Spec.IPFamilies)
	}
	mode := corev1.LoadBalancerIPModeVIP
	for _, ip := range granted {
		ingress = append(ingress, corev1.LoadBalancerIngress{IP: ip.String(), IPMode: &mode})
	}
	return ingress, ""
}

// portOwner returns the older load balancer that uses one of the ports; nil if there is none.
func (w Input) portOwner(s *corev1.Service) *corev1.Service {
	var first *corev1.Service
	for _, o := range w.Services {
		if !HandlesService(o) || o.DeletionTimestamp != nil || older(s, o) >= 0 || shared(s, o) == "" {
			continue
		}
		if first == nil || older(first, o) < 0 {
			first = o
		}
	}
	return first
}

// older compares creation: negative if b is older, 0 for the same Service.
func older(a, b *corev1.Service) int {
	return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
		strings.Compare(b.Namespace+"/"+b.Name, a.Namespace+"/"+a.Name))
}

// shared returns a port that both use, as text.
func shared(a, b *corev1.Service) string {
	for _, p := range a.Spec.Ports {
		for _, q := range b.Spec.Ports {
			if p.Port == q.Port && p.Protocol == q.Protocol {
				return fmt.Sprintf("port %d/%s", p.Port, p.Protocol)
			}
		}
	}
	return ""
}

// usable returns the nodes for the Service's traffic: those that upstream's service controller
// uses, and with policy Local only nodes with a ready endpoint, as nobody checks health check node
// ports here. If no node is ready all count, so that addresses do not flap with one node.
func (w Input) usable(s *corev1.Service) []*corev1.Node {
	var all, ready []*corev1.Node
	for _, n := range w.Nodes {
		if !NodeEligible(n) {
			continue
		}
		all = append(all, n)
		if node.IsReady(n) {
			ready = append(ready, n)
		}
	}
	if len(ready) > 0 {
		all = ready
	}
	if s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		all = slices.DeleteFunc(all, func(n *corev1.Node) bool { return !w.hasLocalEndpoint(s, n.Name) })
	}
	slices.SortFunc(all, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// NodeEligible reports whether a node may get load balancers' traffic at all.
func NodeEligible(n *corev1.Node) bool {
	_, excluded := n.Labels[corev1.LabelNodeExcludeBalancers]
	return !excluded && n.DeletionTimestamp == nil && !slices.ContainsFunc(n.Spec.Taints,
		func(t corev1.Taint) bool { return t.Key == toBeDeleted })
}

// hasLocalEndpoint reports whether a node has an endpoint of the Service that gets traffic.
func (w Input) hasLocalEndpoint(s *corev1.Service, node string) bool {
	for _, slice := range w.Slices {
		if slice.Namespace != s.Namespace || slice.Labels[discoveryv1.LabelServiceName] != s.Name {
			continue
		}
		for _, e := range slice.Endpoints {
			if e.NodeName != nil && *e.NodeName == node && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				return true
			}
		}
	}
	return false
}

// portConflict returns what uses one of the Service's ports on the node already and must not be cut
// off; empty if nothing does.
func (w Input) portConflict(s *corev1.Service, n *corev1.Node) string {
	for _, p := range s.Spec.Ports {
		if p.Protocol == corev1.ProtocolTCP && p.Port == n.Status.DaemonEndpoints.KubeletEndpoint.Port {
			return fmt.Sprintf("port %d/TCP of node %s is its kubelet's", p.Port, n.Name)
		}
		if p.Protocol == corev1.ProtocolTCP && w.apiServer(n, p.Port) {
			return fmt.Sprintf("port %d/TCP of node %s is the API server's", p.Port, n.Name)
		}
		for _, q := range w.Pods {
			if q.Spec.NodeName == n.Name && HasPort(q, p.Port, p.Protocol) {
				return fmt.Sprintf("port %d/%s of node %s is a hostPort of Pod %s/%s", p.Port, p.Protocol, n.Name,
					q.Namespace, q.Name)
			}
		}
	}
	return ""
}

func (w Input) apiServer(n *corev1.Node, port int32) bool {
	own := addresses(n, nil)
	for _, slice := range w.Slices {
		if slice.Namespace != sharedIPDefault || slice.Labels[discoveryv1.LabelServiceName] != "kubernetes" {
			continue
		}
		for _, p := range slice.Ports {
			for _, e := range slice.Endpoints {
				if p.Port != nil && *p.Port == port && len(e.Addresses) > 0 && slices.ContainsFunc(own,
					func(ip netip.Addr) bool { return ip.String() == e.Addresses[0] }) {
					return true
				}
			}
		}
	}
	return false
}

const sharedIPDefault = corev1.NamespaceDefault

// HasPort reports whether a running Pod has a host port; with port 0 whether it has any.
func HasPort(p *corev1.Pod, port int32, protocol corev1.Protocol) bool {
	if pod.IsTerminal(p) {
		return false
	}
	for _, c := range p.Spec.Containers {
		for _, q := range c.Ports {
			if q.HostPort != 0 && (port == 0 || q.HostPort == port && q.Protocol == protocol) {
				return true
			}
		}
	}
	return false
}

// addresses returns a node's external addresses, else its internal ones, of the given IP families
// in their order; no families mean all. Loopback and link-local addresses are left out.
func addresses(n *corev1.Node, families []corev1.IPFamily) []netip.Addr {
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		var all []netip.Addr
		for _, a := range n.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == kind && !ip.IsLoopback() &&
				!ip.IsLinkLocalUnicast() {
				all = append(all, ip)
			}
		}
		if len(families) == 0 && len(all) > 0 {
			return all
		}
		var out []netip.Addr
		for _, f := range families {
			for _, ip := range all {
				if ip.Is6() == (f == corev1.IPv6Protocol) {
					out = append(out, ip)
				}
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}
