package packet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/node"
	podutil "github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/proxy/rules"
)

type endpointPort = discoveryv1.EndpointPort

// endpointTracer traces the packet to one endpoint.
type endpointTracer struct {
	*tracer
	at   netip.AddrPort
	pod  *v1.Pod // nil: not known
	name string
	// translated: the Service's port was replaced by this one.
	translated bool
}

// traceEndpoint traces the packet to one endpoint: does it exist, do policies allow the packet, is
// there a route, does a process listen. The first step that fails ends the trace to this endpoint
// only.
func (x *tracer) traceEndpoint(e rules.Endpoint, p *v1.Pod, translated bool) {
	d := &endpointTracer{tracer: x, at: e.AddrPort, pod: p, name: e.AddrPort.String(), translated: translated}
	x.result.Endpoints = append(x.result.Endpoints, d.name)
	if p != nil {
		x.result.Pods = append(x.result.Pods, p.Namespace+"/"+p.Name)
	}
	if translated && !d.podExists(e) {
		return
	}
	if d.checkPolicy() && d.checkRoute() {
		d.checkSocket()
	}
}

func (d *endpointTracer) addStep(state State, name, format string, args ...any) bool {
	d.result.Steps = append(d.result.Steps, Step{Name: name, State: state, Text: fmt.Sprintf(format, args...),
		Endpoint: d.name})
	return true
}

func (d *endpointTracer) refuse(s Step, fixes ...Fix) bool {
	s.State, s.Endpoint, s.fixes = Failed, d.name, fixes
	d.result.Steps = append(d.result.Steps, s)
	return false
}

// podExists compares the endpoint with its Pod: the EndpointSlice may be out of date.
func (d *endpointTracer) podExists(e rules.Endpoint) bool {
	switch {
	case e.Pod == "":
		return d.addStep(OK, "endpoint", "an address without a Pod")
	case d.pod == nil || e.UID != "" && d.pod.UID != "" && e.UID != string(d.pod.UID):
		return d.refuse(Step{Name: "endpoint",
			Text:   fmt.Sprintf("its Pod %s is gone, and the EndpointSlice still lists it", e.Pod),
			Reason: EndpointDeleted, outcome: Dropped},
			Fix{Description: "see that the controllers run: they take the endpoint out within a second"})
	case podutil.IsTerminal(d.pod) || !slices.Contains(podIPs(d.pod), e.Addr()):
		return d.refuse(Step{Name: "endpoint",
			Text: fmt.Sprintf("Pod %s is %s and no longer has this address; the EndpointSlice is behind", d.pod.Name,
				d.pod.Status.Phase), Reason: EndpointDeleted, outcome: Dropped},
			Fix{Description: "see that the controllers run: they take the endpoint out within a second"})
	}
	return d.addStep(OK, "endpoint", "Pod %s on node %s", d.pod.Name, d.pod.Spec.NodeName)
}

func (d *endpointTracer) checkPolicy() bool {
	if d.Policy == nil {
		for _, p := range d.Policies {
			if d.pod != nil && p.Namespace == d.pod.Namespace || d.from != nil && p.Namespace == d.from.Namespace {
				return d.addStep(Uncertain, "policy",
					"NetworkPolicy %s stands in namespace %s, and who enforces it is not known here", p.Name,
					p.Namespace)
			}
		}
		return true
	}
	if d.request.From.Kind == "" {
		return true // it depends on the sender
	}
	if d.pod != nil && d.from == nil && d.fromCluster && d.node != nil && d.node.Name == d.pod.Spec.NodeName {
		return d.addStep(OK, "policy", "a node may always reach its own Pods")
	}
	if d.pod != nil && d.from == d.pod {
		return d.addStep(OK, "policy", "a Pod may always speak with itself")
	}
	r := d.Policy.Evaluate(d.ClusterState, Flow{From: d.from, To: d.pod, FromAddr: d.fromAddr(family(d.at.Addr())),
		ToAddr: d.at.Addr(), Protocol: d.request.Protocol, Port: d.at.Port()})
	if !r.Allowed {
		return d.refuse(Step{Name: "policy", Text: r.By, Reason: PolicyDenies, outcome: Dropped}, r.Fix)
	}
	return d.addStep(OK, "policy", "%s", r.By)
}

// checkRoute traces the packet to the endpoint's node.
func (d *endpointTracer) checkRoute() bool {
	if d.at.Addr().IsLoopback() {
		return d.refuse(Step{Name: "route", Text: fmt.Sprintf("%s is a loopback address: it never leaves the sender",
			d.at.Addr()), Reason: NoRoute, outcome: Refused},
			Fix{Description: "let the Pod have an address that others can reach"})
	}
	if d.pod == nil {
		return d.addStep(Uncertain, "route", "%s is outside the Pods' network: how it goes on is not known here",
			d.at.Addr())
	}
	there := d.ClusterState.node(d.pod.Spec.NodeName)
	switch {
	case there == nil && len(d.Nodes) > 0:
		return d.refuse(Step{Name: "route", Text: fmt.Sprintf("node %s of Pod %s is gone", d.pod.Spec.NodeName,
			d.pod.Name), Reason: NoRoute, outcome: Dropped}, Fix{Description: "see which nodes there are",
			Run: "kubectl get nodes"})
	case d.from == d.pod && d.from != nil:
		return d.addStep(OK, "route", "back to the sender itself, with another address as sender's (hairpin)")
	case there == nil || d.node == nil:
		return true
	case there.Name == d.node.Name:
		return d.addStep(OK, "route", "on the same node, %s", there.Name)
	case d.pod.Spec.HostNetwork:
		return d.noReply(there, fmt.Sprintf("to node %s by its own address", there.Name))
	}
	return d.routeBetween(there)
}

// routeBetween traces the packet between two nodes.
func (d *endpointTracer) routeBetween(there *v1.Node) bool {
	cidrs := there.Spec.PodCIDRs
	if len(cidrs) == 0 && there.Spec.PodCIDR != "" {
		cidrs = []string{there.Spec.PodCIDR}
	}
	for _, text := range cidrs {
		if r, err := netip.ParsePrefix(text); err == nil && r.Contains(d.at.Addr()) {
			return d.noReply(there, fmt.Sprintf("from node %s to node %s, whose Pods have %s", d.node.Name, there.Name,
				text))
		}
	}
	if len(cidrs) == 0 {
		return d.addStep(Uncertain, "route",
			"from node %s to node %s: node %s has no Pod CIDR, so only its network plugin knows the route", d.node.Name,
			there.Name, there.Name)
	}
	return d.refuse(
		Step{Name: "route", Text: fmt.Sprintf("node %s has no route to %s: it is not in %s, the Pod CIDR of node %s",
			d.node.Name, d.at.Addr(), strings.Join(cidrs, ", "), there.Name), Reason: NoRoute, outcome: Dropped},
		Fix{Description: fmt.Sprintf("let the network plugin of node %s give Pods addresses of its Pod CIDR, and "+
			"make the Pod anew", there.Name)})
}

// noReply adds the route step, uncertain if the Ready condition of node n is Unknown.
func (d *endpointTracer) noReply(n *v1.Node, way string) bool {
	if c := node.ReadyCondition(n); c != nil && c.Status == v1.ConditionUnknown {
		return d.addStep(Uncertain, "route", "%s, which has not been heard of since %s", way,
			c.LastHeartbeatTime.UTC().Format("15:04:05"))
	}
	return d.addStep(OK, "route", "%s", way)
}

// checkSocket reports whether a process accepts the connection.
func (d *endpointTracer) checkSocket() bool {
	if d.pod == nil {
		return d.addStep(Uncertain, "socket", "what listens there is not known")
	}
	listening, known := d.Sockets[types.NamespacedName{Namespace: d.pod.Namespace, Name: d.pod.Name}]
	port := fmt.Sprint(d.at.Port())
	if !known || d.request.Protocol != "TCP" {
		return d.addStep(Uncertain, "socket", "whether a process of Pod %s takes port %s/%s is not known%s", d.pod.Name,
			port, d.request.Protocol, d.declared())
	}
	var elsewhere []string
	for _, s := range listening {
		host, p, ok := cutLast(s)
		switch {
		case !ok || p != port:
		case host == "*" || host == d.at.Addr().String():
			return d.addStep(OK, "socket", "a process of Pod %s listens on %s", d.pod.Name, s)
		default:
			elsewhere = append(elsewhere, s)
		}
	}
	if len(elsewhere) > 0 {
		return d.refuse(
			Step{Name: "socket",
				Text: fmt.Sprintf("a process of Pod %s listens on %s only, which nobody outside the Pod reaches; the "+
					"packet to %s is refused", d.pod.Name, strings.Join(elsewhere, ", "), d.at),
				Reason: ListensOnOtherPort, outcome: Refused},
			Fix{Description: "let the program listen on every address (0.0.0.0)"})
	}
	says := fmt.Sprintf("no process of Pod %s listens on port %s, and the connection is refused: ", d.pod.Name, port)
	if len(listening) == 0 {
		says += "none listens on any port"
	} else {
		says += "they listen on " + strings.Join(listening, ", ")
	}
	return d.refuse(Step{Name: "socket", Text: says + d.declared(), Reason: NoListener, outcome: Refused},
		d.listenFixes(listening)...)
}

// declared returns the containers' declared ports as text; they document and have no effect.
func (d *endpointTracer) declared() string {
	var all []string
	for _, c := range containers(d.pod) {
		for _, p := range c.Ports {
			if p.ContainerPort == int32(d.at.Port()) {
				return ""
			}
			all = append(all, fmt.Sprintf("%d of container %s", p.ContainerPort, c.Name))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "; the port that is declared is " + strings.Join(all, ", ")
}

func (d *endpointTracer) listenFixes(listening []string) []Fix {
	out := []Fix{{Description: fmt.Sprintf("let the program listen on port %d", d.at.Port())}}
	ns, name, _ := strings.Cut(d.result.Service, "/")
	for _, s := range listening {
		host, port, ok := cutLast(s)
		switch {
		case !ok || host != "*" && host != d.at.Addr().String():
		case !d.translated:
			return append([]Fix{{Description: fmt.Sprintf("ask for port %s, where a process listens", port)}}, out...)
		default:
			return append(
				[]Fix{{Description: fmt.Sprintf("let targetPort of Service %s in %s be %s, where a process listens",
					name, ns, port)}}, out...)
		}
	}
	return out
}

// cutLast splits ADDRESS:PORT.
func cutLast(s string) (host, port string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return "", "", false
	}
	return strings.Trim(s[:i], "[]"), s[i+1:], true
}
