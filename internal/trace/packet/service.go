package packet

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// traceTarget traces the packet to an address that is not known to be a Pod's.
func (x *tracer) traceTarget(t target) {
	if t.service != nil {
		x.traceService(t.service, t)
		return
	}
	if s := x.serviceOfIP(t.addr); s != nil {
		x.result.Service = s.Namespace + "/" + s.Name
		x.ok("address", "%s belongs to Service %s in %s", t.addr, s.Name, s.Namespace)
		x.traceService(s, t)
		return
	}
	if n := x.nodeAt(t.addr); n != nil {
		x.traceNode(n, t)
		return
	}
	if p := x.podAt(t.addr); p != nil {
		t.pod, t.direct = p, true
		x.ok("address", "%s is Pod %s in %s", t.addr, p.Name, p.Namespace)
		x.traceDirect([]target{t})
		return
	}
	x.unsure("address", "%s is no Service's, Pod's or node's: how it goes on is known outside alone", t.addr)
	x.stopped = true
}

// serviceOfIP returns the Service with an address; of two the older, as in the rules.
func (x *tracer) serviceOfIP(ip netip.Addr) *v1.Service {
	var found []*v1.Service
	for _, s := range x.Services {
		for _, text := range servicesAddrs(s) {
			if text == ip && rules.Proxied(s) {
				found = append(found, s)
				break
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return slices.MinFunc(found, func(a, b *v1.Service) int {
		if x.hasPort(a, ip) != x.hasPort(b, ip) {
			if x.hasPort(a, ip) {
				return -1
			}
			return 1
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
}

func (x *tracer) hasPort(s *v1.Service, ip netip.Addr) bool {
	return x.port(s, ip, false) != nil
}

func servicesAddrs(s *v1.Service) []netip.Addr {
	texts := append([]string{s.Spec.ClusterIP}, s.Spec.ClusterIPs...)
	texts = append(texts, s.Spec.ExternalIPs...)
	for _, in := range s.Status.LoadBalancer.Ingress {
		texts = append(texts, in.IP)
	}
	return addrs(texts)
}

// traceNode traces the packet to a node's address: a node port, or a process of the node.
func (x *tracer) traceNode(n *v1.Node, t target) {
	if x.node == nil || x.request.From.Kind == "address" {
		x.node = n
	}
	for _, s := range x.Services {
		if rules.Proxied(s) && x.port(s, t.addr, true) != nil {
			x.node = n // the receiving node translates, with its own rules
			x.result.Service = s.Namespace + "/" + s.Name
			x.ok("address", "%s is node %s, and %s is a node port of Service %s in %s", t.addr, n.Name, x.request.Port,
				s.Name, s.Namespace)
			t.nodePort = true
			x.traceService(s, t)
			return
		}
	}
	number, err := strconv.ParseUint(x.request.Port, 10, 16)
	if err != nil {
		x.fail(Step{Name: "port", Text: "port " + x.request.Port + " is a name, and a node has no named ports",
			Reason: NoSuchPort, outcome: NotSent}, Fix{Description: "ask for the port by its number"})
		return
	}
	x.ok("address", "%s is node %s; no Service has %s as node port", t.addr, n.Name, x.request.Port)
	end := netip.AddrPortFrom(t.addr, uint16(number)).String()
	x.result.Endpoints = append(x.result.Endpoints, end)
	for _, p := range x.Pods {
		for _, c := range containers(p) {
			for _, q := range c.Ports {
				if p.Spec.NodeName == n.Name && !pod.IsTerminal(p) &&
					(uint64(q.HostPort) == number || p.Spec.HostNetwork && uint64(q.ContainerPort) == number) {
					x.ok("port", "container %s of Pod %s has this port of the node", c.Name, p.Name)
				}
			}
		}
	}
	x.unsure("socket", "what of node %s listens on port %d is not known here", n.Name, number)
}

// port returns the requested port of the Service, as the node's proxy sees it; nil if there is
// none.
func (x *tracer) port(s *v1.Service, ip netip.Addr, nodePort bool) *rules.ServicePort {
	for _, p := range x.ports(s, x.node, family(ip)) {
		if strings.ToUpper(p.Protocol) != x.request.Protocol {
			continue
		}
		number := p.Number
		if nodePort {
			number = p.NodePort
		}
		if number != 0 && strconv.Itoa(int(number)) == x.request.Port ||
			!nodePort && p.Name != "" && p.Name == x.request.Port {
			return &p
		}
	}
	return nil
}

// traceService looks up the packet in the proxy's rules of x.node.
func (x *tracer) traceService(s *v1.Service, t target) {
	if other, yes := s.Labels["service.kubernetes.io/service-proxy-name"]; yes {
		x.fail(Step{Name: "rule",
			Text: fmt.Sprintf(
				"Service %s is left to another proxy, %q (label service.kubernetes.io/service-proxy-name)", s.Name,
				other), Reason: OtherProxy, outcome: Unknown},
			Fix{Description: "let Gantry's proxy lead it",
				Run: fmt.Sprintf("kubectl -n %s label service %s service.kubernetes.io/service-proxy-name-",
					s.Namespace,
					s.Name)})
		return
	}
	p := x.port(s, t.addr, t.nodePort)
	if p == nil {
		x.noPort(s)
		return
	}
	if !x.fromCluster && !t.nodePort && t.addr == p.Addresses.Cluster && !x.OpenClusterIPs {
		x.fail(Step{Name: "rule",
			Text:   fmt.Sprintf("%s is a cluster IP, which only Pods and nodes of the cluster can ask for", t.addr),
			Reason: ClusterInternalOnly, outcome: Dropped}, outsideFix(s))
		return
	}
	found := p.Lookup(rules.LookupQuery{To: t.addr, NodePort: t.nodePort, FromCluster: x.fromCluster,
		From: x.fromAddr(family(t.addr))})
	switch {
	case found.SourceDenied:
		x.fail(Step{Name: "rule", Text: fmt.Sprintf("loadBalancerSourceRanges of Service %s (%s) do not have %s",
			s.Name, strings.Join(s.Spec.LoadBalancerSourceRanges, ", "), x.fromAddr(family(t.addr))),
			Reason: SourceNotAllowed, outcome: Dropped},
			Fix{Description: "add the sender's range to spec.loadBalancerSourceRanges"})
	case found.Action == rules.Reject:
		x.fail(Step{Name: "rule",
			Text: fmt.Sprintf("Service %s port %s has no endpoints: %s; the node refuses the packet", s.Name,
				x.request.Port, x.endpointCounts(s, p)), Reason: NoEndpoints, outcome: Refused}, explainService(s))
	case found.Action == rules.Drop:
		x.noLocalEndpoint(s, p, t)
	case found.Action == rules.Forward:
		x.ok("rule", "Service %s port %d leads to %s%s%s", s.Name, p.Number,
			countText(len(found.Endpoints), "endpoint"), probabilityText(len(found.Endpoints)),
			sessionAffinityText(p, found))
		for _, e := range found.Endpoints {
			x.traceEndpoint(e, x.ClusterState.pod(s.Namespace, e.Pod), true)
		}
	default:
		x.fail(Step{Name: "rule", Text: fmt.Sprintf("%s is not an address that Service %s takes traffic at", t.addr,
			s.Name), Reason: NoClusterIP, outcome: Dropped}, explainService(s))
	}
}

func countText(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func probabilityText(n int) string {
	if n < 2 {
		return ""
	}
	return ", each as likely"
}

func sessionAffinityText(p *rules.ServicePort, f rules.LookupResult) string {
	out := ""
	if f.LocalOnly {
		out += ", this node's alone (traffic policy Local)"
	}
	if p.Affinity > 0 {
		out += fmt.Sprintf("; a client stays with its endpoint for %d s (sessionAffinity ClientIP)", p.Affinity)
	}
	return out
}

func outsideFix(s *v1.Service) Fix {
	return Fix{Description: "open a port of the nodes",
		Run: fmt.Sprintf(`kubectl -n %s patch service %s --type=merge -p '{"spec":{"type":"NodePort"}}'`, s.Namespace,
			s.Name)}
}

// noPort fails the trace: the Service lacks the requested port.
func (x *tracer) noPort(s *v1.Service) {
	var have []string
	for _, p := range s.Spec.Ports {
		text := fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		if p.Name != "" {
			text += " (" + p.Name + ")"
		}
		have = append(have, text)
		if target := p.TargetPort.String(); target == x.request.Port && target != fmt.Sprint(p.Port) {
			x.fail(Step{Name: "rule",
				Text: fmt.Sprintf("Service %s has no port %s: that is its targetPort, at the Pods; the Service's own "+
					"port is %d. The node refuses the packet", s.Name, x.request.Port, p.Port), Reason: NoSuchPort,
				outcome: Refused},
				Fix{Description: fmt.Sprintf("ask for port %d", p.Port)})
			return
		}
	}
	x.fail(Step{Name: "rule", Text: fmt.Sprintf("Service %s has no port %s/%s%s; the node refuses the packet", s.Name,
		x.request.Port, x.request.Protocol, joinPorts(have)), Reason: NoSuchPort, outcome: Refused},
		Fix{Description: "ask for a port that the Service has, or add this one to it"})
}

// noLocalEndpoint fails the trace: a Local traffic policy and no endpoint on this node.
func (x *tracer) noLocalEndpoint(s *v1.Service, p *rules.ServicePort, t target) {
	name, where := "this node", "internalTrafficPolicy"
	if x.node != nil {
		name = "node " + x.node.Name
	}
	if t.nodePort || t.addr != p.Addresses.Cluster {
		where = "externalTrafficPolicy"
	}
	var on []string
	for _, e := range p.ClusterEndpoints {
		if q := x.ClusterState.pod(s.Namespace, e.Pod); q != nil && !slices.Contains(on, q.Spec.NodeName) {
			on = append(on, q.Spec.NodeName)
		}
	}
	x.fail(Step{Name: "rule", Text: fmt.Sprintf("%s of Service %s is Local, and %s has no ready endpoint of it (%s)",
		where, s.Name, name, "they are on "+strings.Join(on, ", ")), Reason: NoLocalEndpoint, outcome: Dropped},
		Fix{Description: "let every node's endpoints count",
			Run: fmt.Sprintf(`kubectl -n %s patch service %s --type=merge -p '{"spec":{"%s":"Cluster"}}'`, s.Namespace,
				s.Name, where)},
		Fix{Description: "or have a Pod of it on every node (a DaemonSet), or ask a node that has one"})
}

// endpointCounts counts the unusable endpoints, by reason.
func (x *tracer) endpointCounts(s *v1.Service, p *rules.ServicePort) string {
	unready, ending, otherPorts, n := 0, 0, 0, 0
	for _, slice := range x.ClusterState.slices(s) {
		named := slices.ContainsFunc(slice.Ports, func(q endpointPort) bool {
			return q.Port != nil && (q.Name == nil && p.Name == "" || q.Name != nil && *q.Name == p.Name)
		})
		for _, e := range slice.Endpoints {
			n++
			switch {
			case !named:
				otherPorts++
			case e.Conditions.Terminating != nil && *e.Conditions.Terminating:
				ending++
			default:
				unready++
			}
		}
	}
	switch {
	case n == 0 && len(s.Spec.Selector) == 0:
		return "it has no selector, and nobody wrote any"
	case n == 0:
		return "no Pod with an address matches its selector"
	}
	var parts []string
	if unready > 0 {
		parts = append(parts, fmt.Sprintf("%d not ready", unready))
	}
	if ending > 0 {
		parts = append(parts, fmt.Sprintf("%d terminating and not serving", ending))
	}
	if otherPorts > 0 {
		parts = append(parts, fmt.Sprintf("%d without a port of the name it targets", otherPorts))
	}
	return "of " + countText(n, "endpoint") + " " + strings.Join(parts, ", ")
}
