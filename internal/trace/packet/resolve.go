package packet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// target is an address to send to, with the objects it belongs to.
type target struct {
	addr     netip.Addr
	service  *v1.Service
	pod      *v1.Pod
	nodePort bool // the Service's node port at a node's address
	direct   bool // not translated
}

// resolve returns the addresses of the requested peer.
func (x *tracer) resolve() []target {
	if x.stopped {
		return nil
	}
	to := x.request.To
	switch to.Kind {
	case "pod":
		return x.resolvePod(to)
	case "node":
		n := x.ClusterState.node(to.Name)
		if n == nil || len(nodeIPs(n)) == 0 {
			x.fail(Step{Name: "address", Text: fmt.Sprintf("there is no node %s with an address", to.Name),
				Reason: NoSuchNode, outcome: Unresolved}, Fix{Description: "see which nodes there are",
				Run: "kubectl get nodes -o wide"})
			return nil
		}
		return []target{{addr: nodeIPs(n)[0]}}
	case "address":
		return []target{{addr: to.Addr}}
	case "service":
		s := x.ClusterState.service(to.Namespace, to.Name)
		if s == nil {
			x.noService(to.Name, to.Namespace)
			return nil
		}
		return x.serviceTargets(s, fmt.Sprintf("%s.%s.svc.%s", s.Name, s.Namespace, x.domain()))
	}
	return x.resolveName(strings.ToLower(to.Name))
}

func (x *tracer) noService(name, namespace string) {
	says := fmt.Sprintf("there is no Service %s in namespace %s", name, namespace)
	var elsewhere []string
	for _, s := range x.Services {
		if s.Name == name {
			elsewhere = append(elsewhere, s.Namespace)
		}
	}
	fix := Fix{Description: "see which Services there are", Run: "kubectl get services -n " + namespace}
	if len(elsewhere) > 0 {
		says += "; there is one in " + strings.Join(elsewhere, ", ")
		fix = Fix{Description: fmt.Sprintf("ask for %s.%s", name, elsewhere[0])}
	}
	x.fail(Step{Name: "name", Text: says, Reason: NoSuchService, outcome: Unresolved}, fix)
}

func (x *tracer) resolvePod(to Peer) []target {
	p := x.ClusterState.pod(to.Namespace, to.Name)
	switch {
	case p == nil:
		x.fail(Step{Name: "address", Text: fmt.Sprintf("there is no Pod %s in namespace %s", to.Name, to.Namespace),
			Reason: NoSuchPod, outcome: Unresolved},
			Fix{Description: "see which Pods there are", Run: "kubectl get pods -n " + to.Namespace})
		return nil
	case len(podIPs(p)) == 0 || pod.IsTerminal(p):
		x.fail(Step{Name: "address", Text: fmt.Sprintf("Pod %s is %s and has no address", p.Name, p.Status.Phase),
			Reason: EndpointDeleted, outcome: Unresolved},
			seeWhy("see why", "Pod", p.Namespace, p.Name))
		return nil
	}
	var out []target
	for _, ip := range podIPs(p) {
		out = append(out, target{addr: ip, pod: p, direct: true})
	}
	x.ok("address", "Pod %s has %s", p.Name, joined(podIPs(p)))
	return out[:1]
}

// resolveName resolves a name as the sender's resolver would: along its search path, then as it is.
func (x *tracer) resolveName(name string) []target {
	if why := x.otherDNS(); why != "" && x.inClusterDomain(name) {
		x.fail(Step{Name: "name", Text: why, Reason: NotClusterDNS, outcome: Unresolved}, x.dnsFixes()...)
		return nil
	}
	for _, full := range x.candidates(name) {
		rest, ours := strings.CutSuffix(full, ".svc."+x.domain())
		parts := strings.Split(rest, ".")
		if !ours || len(parts) < 2 {
			continue
		}
		s := x.ClusterState.service(parts[len(parts)-1], parts[len(parts)-2])
		if s == nil {
			continue
		}
		if len(parts) == 2 {
			return x.serviceTargets(s, full)
		}
		if t := x.hostTargets(s, parts[0]); len(parts) == 3 && t != nil {
			x.ok("name", "%s is Pod %s behind the headless Service %s: %s", full, t[0].pod.Name, s.Name, t[0].addr)
			return t
		}
	}
	if x.inClusterDomain(name) {
		parts := strings.Split(name, ".")
		namespace := x.namespace()
		if len(parts) > 1 {
			namespace = parts[1]
		}
		x.noService(parts[0], namespace)
		return nil
	}
	x.unsure("name", "%s is no name of this cluster: what it resolves to is known outside alone", name)
	x.stopped = true
	return nil
}

// inClusterDomain reports whether only the cluster's DNS can know the name.
func (x *tracer) inClusterDomain(name string) bool {
	parts := strings.Split(name, ".")
	return len(parts) == 1 || strings.HasSuffix(name, "."+x.domain()) || len(parts) > 2 && parts[2] == "svc" ||
		len(parts) == 2 &&
			(slices.ContainsFunc(x.Services, func(s *v1.Service) bool { return s.Namespace == parts[1] }))
}

func (x *tracer) namespace() string {
	if x.from != nil {
		return x.from.Namespace
	}
	return "default"
}

// otherDNS returns why the sender does not use the cluster's DNS; empty if it does.
func (x *tracer) otherDNS() string {
	switch p := x.from; {
	case p == nil && x.request.From.Kind != "":
		return fmt.Sprintf("%s does not ask the cluster's DNS, which alone knows the name", x.request.From)
	case p == nil || p.Spec.DNSPolicy == v1.DNSClusterFirstWithHostNet || p.Spec.DNSPolicy == "":
	case p.Spec.DNSPolicy == v1.DNSClusterFirst && pod.DNSPolicy(&p.Spec) == v1.DNSDefault:
		return fmt.Sprintf("Pod %s uses hostNetwork with dnsPolicy ClusterFirst, which then means Default: it asks "+
			"the node's own name server, which does not know the cluster's names", p.Name)
	case p.Spec.DNSPolicy == v1.DNSDefault:
		return fmt.Sprintf("Pod %s has dnsPolicy Default: it asks the node's own name server, which does not know "+
			"the cluster's names", p.Name)
	}
	return "" // None: dnsConfig has the servers, which may be the cluster's
}

func (x *tracer) dnsFixes() []Fix {
	switch {
	case x.from == nil:
		return []Fix{{Description: "ask by address, or from a Pod"}}
	case x.from.Spec.HostNetwork:
		return []Fix{{Description: "give the Pod dnsPolicy: ClusterFirstWithHostNet"}}
	}
	return []Fix{{Description: "give the Pod dnsPolicy: ClusterFirst"}}
}

// candidates returns the full names to try, in the order of the search path.
func (x *tracer) candidates(name string) []string {
	search := []string{x.namespace() + ".svc." + x.domain(), "svc." + x.domain(), x.domain()}
	var out []string
	for _, s := range search {
		out = append(out, name+"."+s)
	}
	if strings.Count(name, ".") >= 5 {
		return append([]string{name}, out...) // ndots:5
	}
	return append(out, name)
}

// serviceTargets returns the addresses of a Service's name.
func (x *tracer) serviceTargets(s *v1.Service, full string) []target {
	switch {
	case s.Spec.Type == v1.ServiceTypeExternalName:
		x.result.Service = s.Namespace + "/" + s.Name
		x.fail(Step{Name: "name",
			Text: fmt.Sprintf("%s is another name of %s (type ExternalName): nothing in the cluster stands behind "+
				"it, its ports mean nothing, and how it goes on is known outside alone", full, s.Spec.ExternalName),
			Reason: ExternalName, outcome: Unknown})
		return nil
	case s.Spec.ClusterIP == v1.ClusterIPNone:
		return x.headless(s, full)
	}
	var out []target
	for _, ip := range addrs(append([]string{s.Spec.ClusterIP}, s.Spec.ClusterIPs...)) {
		out = append(out, target{addr: ip, service: s})
	}
	if len(out) == 0 {
		x.result.Service = s.Namespace + "/" + s.Name
		x.fail(Step{Name: "address", Text: fmt.Sprintf("Service %s has no cluster IP", s.Name), Reason: NoClusterIP,
			outcome: Unresolved},
			seeWhy("see what keeps it from one", "Service", s.Namespace, s.Name))
		return nil
	}
	if why := x.otherDNS(); why != "" && x.request.To.Kind == "service" {
		x.unsure("name", "%s, so that it must ask by address", why)
		x.ok("address", "Service %s has %s", s.Name, s.Spec.ClusterIP)
	} else {
		x.ok("name", "%s is %s", full, s.Spec.ClusterIP)
	}
	return out
}

// headless returns the Pods' addresses of a headless Service's name.
func (x *tracer) headless(s *v1.Service, full string) []target {
	x.result.Service = s.Namespace + "/" + s.Name
	var out []target
	unready := 0
	for _, slice := range x.ClusterState.slices(s) {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				unready++
				continue
			}
			for _, ip := range addrs(e.Addresses) {
				t := target{addr: ip, service: s, direct: true}
				if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
					t.pod = x.ClusterState.pod(s.Namespace, e.TargetRef.Name)
				}
				out = append(out, t)
			}
		}
	}
	if len(out) == 0 {
		x.fail(Step{Name: "name",
			Text: fmt.Sprintf("%s has no address: Service %s is headless, and none of its endpoints is ready (%d are "+
				"not)", full, s.Name, unready), Reason: NoEndpoints, outcome: Unresolved}, explainService(s))
		return nil
	}
	slices.SortFunc(out, func(a, b target) int { return a.addr.Compare(b.addr) })
	var all []netip.Addr
	for _, t := range out {
		all = append(all, t.addr)
	}
	x.ok("name", "%s is %s: Service %s is headless, so the sender speaks with a Pod itself", full, joined(all), s.Name)
	x.untranslated(s)
	return out
}

// untranslated warns if the requested port would need a cluster IP to be translated.
func (x *tracer) untranslated(s *v1.Service) {
	for _, p := range s.Spec.Ports {
		if want := p.TargetPort.String(); fmt.Sprint(p.Port) == x.request.Port && want != "0" &&
			want != x.request.Port {
			x.unsure("port",
				"a headless Service translates no ports: the packet goes to port %s of the Pod, not to targetPort %s",
				x.request.Port, want)
		}
	}
}

// hostTargets returns the address of a Pod by its hostname in a headless Service.
func (x *tracer) hostTargets(s *v1.Service, host string) []target {
	for _, slice := range x.ClusterState.slices(s) {
		for _, e := range slice.Endpoints {
			if e.Hostname == nil || *e.Hostname != host || e.TargetRef == nil {
				continue
			}
			p := x.ClusterState.pod(s.Namespace, e.TargetRef.Name)
			if ips := addrs(e.Addresses); p != nil && len(ips) > 0 {
				return []target{{addr: ips[0], service: s, pod: p, direct: true}}
			}
		}
	}
	return nil
}

func explainService(s *v1.Service) Fix {
	return seeWhy("see why", "Service", s.Namespace, s.Name)
}

func joined(all []netip.Addr) string {
	texts := make([]string, len(all))
	for i, a := range all {
		texts[i] = a.String()
	}
	return strings.Join(texts, ", ")
}
