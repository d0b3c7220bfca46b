package packet

import (
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	podutil "github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// ClusterState is the input of Trace: objects of the cluster. Parts that the user may not read are
// nil; steps that need them report Unknown.
type ClusterState struct {
	Services []*v1.Service
	Slices   []*discoveryv1.EndpointSlice
	Pods     []*v1.Pod
	Nodes    []*v1.Node
	// Namespaces and Policies are for the PolicyEvaluator; Policies alone says whether there are
	// any to evaluate.
	Namespaces []*v1.Namespace
	Policies   []*networkingv1.NetworkPolicy
	// Policy evaluates policies; nil: their effect is not known.
	Policy PolicyEvaluator
	// Sockets are where the processes of Pods listen for TCP, as ADDRESS:PORT with * for all
	// addresses; Pods that it lacks are not known.
	Sockets map[types.NamespacedName][]string
	// Domain is the cluster domain; empty: cluster.local.
	Domain string
	// OpenClusterIPs: cluster IPs can be reached from everywhere, not from Pods and nodes alone.
	OpenClusterIPs bool
}

// PolicyEvaluator decides whether NetworkPolicies allow a flow.
type PolicyEvaluator interface {
	Evaluate(w ClusterState, f Flow) PolicyResult
}

// Flow is sender and receiver after DNAT. The Pods are nil for ends that are not Pods.
type Flow struct {
	From, To         *v1.Pod
	FromAddr, ToAddr netip.Addr
	Protocol         string // TCP, UDP, SCTP
	Port             uint16
}

// PolicyResult is the result of a PolicyEvaluator.
type PolicyResult struct {
	Allowed bool
	By      string // text: the policy and its rule, or that no policy selects the Pods
	Fix     Fix    // if not allowed
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

// podAt returns the running Pod with address ip that does not use the host network; nil if there is
// none.
func (w ClusterState) podAt(ip netip.Addr) *v1.Pod {
	for _, p := range w.Pods {
		if !p.Spec.HostNetwork && !podutil.IsTerminal(p) && slices.Contains(podIPs(p), ip) {
			return p
		}
	}
	return nil
}

// nodeAt returns the node with address ip; nil if there is none.
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

// ports returns the Service's ports as the proxy of node n sees them.
func (w ClusterState) ports(s *v1.Service, n *v1.Node, f rules.Family) []rules.ServicePort {
	in := rules.Input{Service: s, Slices: w.slices(s)}
	if n != nil {
		in.Node = rules.Node{Name: n.Name, Zone: n.Labels[v1.LabelTopologyZone]}
	}
	return rules.ServicePorts(in, f)
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

// addrs parses addresses, drops duplicates and invalid ones.
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
