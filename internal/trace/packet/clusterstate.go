package packet

import (
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// ClusterState is what is known of the cluster. What the asker may not see is left out, and steps
// that need it say that they do not know.
type ClusterState struct {
	Services []*v1.Service
	Slices   []*discoveryv1.EndpointSlice
	Pods     []*v1.Pod
	Nodes    []*v1.Node
	// Namespaces and Policies are for a PolicyEvaluator; Policies alone tells that there is
	// something to judge.
	Namespaces []*v1.Namespace
	Policies   []*networkingv1.NetworkPolicy
	// Policy rules over policies; nil: nobody can say.
	Policy PolicyEvaluator
	// Sockets are where the processes of Pods take TCP connections, ADDRESS:PORT with * for every
	// address; a Pod that is not in it is not known.
	Sockets map[types.NamespacedName][]string
	// Domain is the cluster's; empty means cluster.local.
	Domain string
	// OpenClusterIPs: cluster IPs are answered from everywhere, not from Pods and the node alone.
	OpenClusterIPs bool
}

// PolicyEvaluator says whether NetworkPolicies let a flow through.
type PolicyEvaluator interface {
	Evaluate(w ClusterState, f Flow) PolicyResult
}

// Flow is who sends to whom, after the Service's address was replaced by the endpoint's. Pods are
// nil for what is none.
type Flow struct {
	From, To         *v1.Pod
	FromAddr, ToAddr netip.Addr
	Protocol         string // TCP, UDP, SCTP
	Port             uint16
}

// PolicyResult is a PolicyEvaluator's.
type PolicyResult struct {
	Allowed bool
	By      string // in words: the policy and its rule, or that no policy selects the Pods
	Fix     Fix    // when not allowed
}

func (w ClusterState) domain() string {
	if w.Domain == "" {
		return "cluster.local"
	}
	return w.Domain
}

func (w ClusterState) pod(namespace, name string) *v1.Pod {
	for _, p := range w.Pods {
		if p.Namespace == namespace && p.Name == name {
			return p
		}
	}
	return nil
}

func (w ClusterState) service(namespace, name string) *v1.Service {
	for _, s := range w.Services {
		if s.Namespace == namespace && s.Name == name {
			return s
		}
	}
	return nil
}

func (w ClusterState) node(name string) *v1.Node {
	for _, n := range w.Nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// podAt is the living Pod of the Pod network with an address.
func (w ClusterState) podAt(ip netip.Addr) *v1.Pod {
	for _, p := range w.Pods {
		if !p.Spec.HostNetwork && !ended(p) && slices.Contains(podIPs(p), ip) {
			return p
		}
	}
	return nil
}

// nodeAt is the node with an address.
func (w ClusterState) nodeAt(ip netip.Addr) *v1.Node {
	for _, n := range w.Nodes {
		if slices.Contains(nodeIPs(n), ip) {
			return n
		}
	}
	return nil
}

func (w ClusterState) slices(s *v1.Service) []*discoveryv1.EndpointSlice {
	var out []*discoveryv1.EndpointSlice
	for _, x := range w.Slices {
		if x.Namespace == s.Namespace && x.Labels[discoveryv1.LabelServiceName] == s.Name {
			out = append(out, x)
		}
	}
	return out
}

// ports are a Service's as the proxy of a node sees them.
func (w ClusterState) ports(s *v1.Service, n *v1.Node, f rules.Family) []rules.ServicePort {
	in := rules.Input{Service: s, Slices: w.slices(s)}
	if n != nil {
		in.Node = rules.Node{Name: n.Name, Zone: n.Labels[v1.LabelTopologyZone]}
	}
	return rules.ServicePorts(in, f)
}

func ended(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

func podIPs(p *v1.Pod) []netip.Addr {
	texts := []string{p.Status.PodIP}
	for _, ip := range p.Status.PodIPs {
		texts = append(texts, ip.IP)
	}
	return addrs(texts)
}

func nodeIPs(n *v1.Node) []netip.Addr {
	var texts []string
	for _, a := range n.Status.Addresses {
		texts = append(texts, a.Address)
	}
	return addrs(texts)
}

// addrs reads addresses, each once; what is none is left out.
func addrs(texts []string) []netip.Addr {
	var out []netip.Addr
	for _, t := range texts {
		if ip, err := netip.ParseAddr(t); err == nil && !slices.Contains(out, ip.Unmap()) {
			out = append(out, ip.Unmap())
		}
	}
	return out
}

func family(ip netip.Addr) rules.Family {
	if ip.Is4() {
		return rules.IPv4
	}
	return rules.IPv6
}
