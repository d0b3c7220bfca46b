package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// serviceCause is a row of the causes that make a Service unreachable; the first that answers wins.
type serviceCause struct {
	name string
	find func(Subject, *Answer, *corev1.Service) bool
}

var serviceCauses = []serviceCause{
	{"alias", Subject.externalName},
	{"other proxy", Subject.otherProxy},
	{"no selector", Subject.noSelector},
	{"port name", Subject.wrongPortName},
	{"no endpoints", Subject.noReadyEndpoints},
	{"no address", Subject.noClusterIP},
	{"packet", Subject.packetBlocked},
	{"load balancer", Subject.noLoadBalancer},
	{"ready", Subject.working},
}

// service explains whether a Service can be reached.
func (s Subject) service(a *Answer, x *corev1.Service) {
	a.Since = x.CreationTimestamp.Time
	for _, c := range serviceCauses {
		if c.find(s, a, x) {
			break
		}
	}
	s.serviceFacts(a, x)
}

// ready returns the number of the Service's ready endpoints.
func (s Subject) ready(x *corev1.Service) int {
	if s.NamespaceContext == nil {
		return 0
	}
	return s.NamespaceContext.Ready[x.Name]
}

func headless(x *corev1.Service) bool { return x.Spec.ClusterIP == corev1.ClusterIPNone }

func (s Subject) kubectl(x *corev1.Service, typ, patch string) string {
	return fmt.Sprintf("kubectl -n %s patch service %s --type=%s -p '%s'", x.Namespace, x.Name, typ, patch)
}

// externalName explains a Service of type ExternalName.
func (s Subject) externalName(a *Answer, x *corev1.Service) bool {
	if x.Spec.Type != corev1.ServiceTypeExternalName {
		return false
	}
	a.State, a.Cause = "an alias",
		fmt.Sprintf("The Service is another name of %s (type ExternalName); nothing stands behind it here.",
			x.Spec.ExternalName)
	a.Facts = append(a.Facts, "its ports mean nothing: who asks connects to the port it names itself")
	if _, err := netip.ParseAddr(x.Spec.ExternalName); err == nil {
		a.Cause = fmt.Sprintf("The Service is another name of %s, which is an address: a name server answers with it "+
			"as if it were a name, and nobody can resolve that.", x.Spec.ExternalName)
		a.Fixes = textFixes(
			fmt.Sprintf("make it a Service without selector, of type ClusterIP, and write an EndpointSlice with %s "+
				"for it", x.Spec.ExternalName))
	} else {
		a.Facts = append(a.Facts, fmt.Sprintf("HTTP and TLS servers see the name %s.%s and not %s: many refuse that",
			x.Name, x.Namespace, x.Spec.ExternalName))
	}
	if len(x.Spec.Selector) > 0 {
		a.Facts = append(a.Facts, "its selector is not used")
	}
	return true
}

// noClusterIP explains a Service without an allocated cluster IP.
func (s Subject) noClusterIP(a *Answer, x *corev1.Service) bool {
	if x.Spec.ClusterIP != "" {
		return false
	}
	a.State, a.Cause = "without an address", "The Service has no cluster IP: none was allocated."
	for _, e := range s.Events {
		if e.Type == corev1.EventTypeWarning {
			a.Facts = append(a.Facts, fmt.Sprintf("%s: %s", e.Reason, e.Message))
		}
	}
	a.Fixes = textFixes("delete the Service and apply it again; when that is refused, free cluster IPs or add a " +
		"ServiceCIDR")
	return true
}

func (s Subject) otherProxy(a *Answer, x *corev1.Service) bool {
	other, yes := x.Labels["service.kubernetes.io/service-proxy-name"]
	if !yes {
		return false
	}
	a.State, a.Cause = "left to another proxy",
		fmt.Sprintf("The Service carries the label service.kubernetes.io/service-proxy-name=%s: Gantry's proxy "+
			"leaves it alone, and only a proxy of that name leads its traffic.", other)
	a.Fixes = []Fix{commandFix("let Gantry's proxy lead it",
		fmt.Sprintf("kubectl -n %s label service %s service.kubernetes.io/service-proxy-name-", x.Namespace, x.Name))}
	return true
}

// noSelector explains a Service without selector for which no endpoints exist.
func (s Subject) noSelector(a *Answer, x *corev1.Service) bool {
	if len(x.Spec.Selector) > 0 || s.ready(x) > 0 {
		return false
	}
	a.State, a.Cause = "without endpoints",
		"The Service selects no Pods (it has no selector), and nobody wrote endpoints for it."
	a.Fixes = textFixes("give it a selector, or write an EndpointSlice for it")
	return true
}

// noReadyEndpoints explains a Service without ready endpoints: it selects no Pod, or none is ready,
// and then that Pod's explanation is the answer.
func (s Subject) noReadyEndpoints(a *Answer, x *corev1.Service) bool {
	if s.ready(x) > 0 || s.ClusterContext == nil || len(x.Spec.Selector) == 0 {
		return false
	}
	text, fixes := noEndpointsReason(x, s.ClusterContext.Pods, nil)
	a.State = "without endpoints"
	switch {
	case text == "" && s.loopbackEndpoints(a):
	case text == "":
		a.Cause = "Ready Pods match the Service, and its endpoints are not written yet."
		a.Next = "the controllers write them within a second; when this lasts, they do not run, or may not write " +
			"EndpointSlices"
	case s.WorstPod == nil || s.WorstPod.Pod == nil || s.WorstPod.Pod.DeletionTimestamp != nil:
		a.Cause, a.Fixes = "The Service "+text, fixes
	default:
		why := Why(*s.WorstPod)
		selected := s.runningPods()
		all := fmt.Sprintf("of the %d Pods it selects none is ready (%s)", len(selected), namesOf(selected))
		if len(selected) == 1 {
			all = "the one Pod it selects is not ready"
		}
		a.Cause = fmt.Sprintf("The Service has no endpoints: %s. Pod %s is %s: %s", all, s.WorstPod.Ref.Name, why.State,
			why.Cause)
		a.Facts, a.Next, a.Fixes = append(a.Facts, why.Facts...), why.Next, why.Fixes
	}
	return true
}

// loopbackEndpoints explains ready Pods whose addresses other hosts cannot reach.
func (s Subject) loopbackEndpoints(a *Answer) bool {
	for _, p := range s.runningPods() {
		ip, err := netip.ParseAddr(p.Status.PodIP)
		if err != nil || !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
			continue
		}
		a.Cause = fmt.Sprintf("The Service has no endpoints: Pod %s has the address %s, which nobody outside its "+
			"node reaches, so that it cannot be an endpoint.", p.Name, ip)
		a.Fixes = textFixes("start the node with an address that others reach (--node-ip), or do without hostNetwork")
		return true
	}
	return false
}

// runningPods returns the selected Pods that have not ended.
func (s Subject) runningPods() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(s.Pods), func(p *corev1.Pod) bool {
		return pod.IsTerminal(p)
	})
}

// noLoadBalancer explains a Service of type LoadBalancer without address.
func (s Subject) noLoadBalancer(a *Answer, x *corev1.Service) bool {
	if x.Spec.Type != corev1.ServiceTypeLoadBalancer || len(x.Status.LoadBalancer.Ingress) > 0 {
		return false
	}
	a.State = "Pending"
	a.Cause = fmt.Sprintf("The Service waits for an address from outside: no load balancer has been made for it. "+
		"Inside the cluster it works (%d ready endpoints).", s.ready(x))
	if class := x.Spec.LoadBalancerClass; class != nil {
		a.Cause = fmt.Sprintf("The Service waits for a load balancer of class %s: only a controller of that class "+
			"gives it an address. Inside the cluster it works (%d ready endpoints).", *class, s.ready(x))
		a.Fixes = []Fix{commandFix("make the Service again without spec.loadBalancerClass: whoever serves no "+
			"class then gives it an "+
			"address", fmt.Sprintf("kubectl -n %s get service %s -o json | kubectl patch --local -f - "+
			`--type=merge -p '{"spec":{"loadBalancerClass":null}}' -o json | kubectl replace --force -f -`, x.Namespace,
			x.Name)), {Description: "or run the controller of that class"}}
	} else {
		a.Fixes = textFixes("let Gantry grant the nodes' addresses: start it without --service-load-balancer=false; " +
			"or run another controller that makes load balancers")
	}
	if e := s.newestEvent("SyncLoadBalancerFailed"); e != nil && x.Spec.LoadBalancerClass == nil {
		a.Cause = fmt.Sprintf("The Service waits for an address from outside, and the nodes' cannot be granted: %s. "+
			"Inside the cluster it works (%d ready endpoints).",
			strings.TrimPrefix(e.Message, "Error syncing load balancer: failed to ensure load balancer: "), s.ready(x))
		a.Fixes = textFixes("change what the sentence above names")
	}
	a.Fixes = append(a.Fixes, commandFix("or be content with a port of the nodes",
		s.kubectl(x, "merge", `{"spec":{"type":"NodePort"}}`)))
	return true
}

// working describes a Service that works.
func (s Subject) working(a *Answer, x *corev1.Service) bool {
	n := s.ready(x)
	a.State, a.Cause = "Ready", fmt.Sprintf("%d ready endpoints stand behind the Service.", n)
	if n == 1 {
		a.Cause = "1 ready endpoint stands behind the Service."
	}
	staying := slices.DeleteFunc(s.runningPods(), func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if all := len(staying); n < all && s.WorstPod != nil && s.WorstPod.Pod != nil &&
		s.WorstPod.Pod.DeletionTimestamp == nil && !x.Spec.PublishNotReadyAddresses {
		why := Why(*s.WorstPod)
		a.Cause = fmt.Sprintf("%d of %d Pods take the Service's traffic. Pod %s is %s: %s", n, all, s.WorstPod.Ref.Name,
			why.State, why.Cause)
		a.Fixes = why.Fixes
	}
	return true
}

// wrongPortName explains a named target port that no container of the Service's Pods has, so that
// the port has no endpoints.
func (s Subject) wrongPortName(a *Answer, x *corev1.Service) bool {
	for i, port := range x.Spec.Ports {
		want := port.TargetPort.StrVal
		if want == "" || len(s.runningPods()) == 0 {
			continue
		}
		names, initial, found := s.portNames(want, port.Protocol)
		if found {
			continue
		}
		p := s.runningPods()[0]
		a.State = "without endpoints"
		a.Cause = fmt.Sprintf("Port %d of the Service goes to the %s port named %s, and no container of its Pods has "+
			"a port of that name", port.Port, protocol(port.Protocol), want)
		switch {
		case initial != "":
			a.Cause += fmt.Sprintf(": init container %s has, but the ports of init containers are no part of a "+
				"Service.", initial)
		case len(names) == 0:
			a.Cause += fmt.Sprintf(": %s names none.", p.Name)
		default:
			a.Cause += fmt.Sprintf(": %s has %s.", p.Name, joinList(s.numbered(names, port.Protocol)))
		}
		a.Facts = append(a.Facts, fmt.Sprintf("so port %d has no endpoints, though %d of %d Pods are ready", port.Port,
			s.readyPods(), len(s.runningPods())))
		if near := nearestName(want, names); near != "" {
			a.Fixes = append(a.Fixes, s.target(x, i, near))
		} else {
			for _, n := range names {
				a.Fixes = append(a.Fixes, s.target(x, i, n))
			}
		}
		a.Fixes = append(a.Fixes, Fix{Description: fmt.Sprintf("or name the port %s in a container of the Pods", want)})
		return true
	}
	return false
}

func (s Subject) target(x *corev1.Service, i int, name string) Fix {
	return commandFix("let targetPort be "+name,
		s.kubectl(x, "json", fmt.Sprintf(`[{"op":"replace","path":"/spec/ports/%d/targetPort","value":"%s"}]`, i,
			name)))
}

func protocol(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}

// portNames returns the names of the Pods' ports of a protocol; initial is an init container that
// has the wanted name but ends, found: a lasting container has it.
func (s Subject) portNames(want string, proto corev1.Protocol) (names []string, initial string, found bool) {
	for _, p := range s.runningPods() {
		for _, c := range containers(p) {
			stays := !c.init || pod.IsSidecar(c.spec)
			for _, port := range c.spec.Ports {
				switch {
				case port.Name == "" || protocol(port.Protocol) != protocol(proto):
				case !stays && port.Name == want:
					initial = c.spec.Name
				case !stays:
				case port.Name == want:
					return nil, "", true
				case !slices.Contains(names, port.Name):
					names = append(names, port.Name)
				}
			}
		}
	}
	return names, initial, false
}

// numbered are names of ports of the Pods' containers with the numbers that these have.
func (s Subject) numbered(names []string, proto corev1.Protocol) []string {
	out := slices.Clone(names)
	for i, name := range names {
		for _, p := range s.runningPods() {
			for _, c := range containers(p) {
				for _, port := range c.spec.Ports {
					if port.Name == name && protocol(port.Protocol) == protocol(proto) && out[i] == name {
						out[i] = fmt.Sprintf("%s (%d)", name, port.ContainerPort)
					}
				}
			}
		}
	}
	return out
}

func (s Subject) readyPods() int {
	n := 0
	for _, p := range s.runningPods() {
		if pod.IsReady(p) {
			n++
		}
	}
	return n
}

// portsText formats a Service's ports.
func portsText(x *corev1.Service) string {
	var out []string
	for _, p := range x.Spec.Ports {
		out = append(out, fmt.Sprintf("%d/%s", p.Port, protocol(p.Protocol)))
	}
	return strings.Join(out, ", ")
}

// namesOf are the names of Pods, at most five.
func namesOf(pods []*corev1.Pod) string {
	var names []string
	for i, p := range pods {
		if i == 5 {
			names = append(names, fmt.Sprintf("%d more", len(pods)-i))
			break
		}
		names = append(names, p.Name)
	}
	return joinList(names)
}
