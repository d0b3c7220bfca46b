package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	policyrules "github.com/gantry-project/gantry/internal/networkpolicy/rules"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/trace/packet"
)

// ServicePackets returns requests to trace packets from any Pod to each port of a Service.
func ServicePackets(x *corev1.Service) []packet.Request {
	var out []packet.Request
	for _, p := range x.Spec.Ports {
		port := fmt.Sprint(p.Port)
		if number := p.TargetPort.IntValue(); headless(x) && number > 0 {
			port = fmt.Sprint(number) // not translated: the sender must use the Pods' own port
		}
		out = append(out, packet.Request{To: packet.Peer{Kind: "service", Namespace: x.Namespace, Name: x.Name},
			Port: port, Protocol: string(protocol(p.Protocol))})
	}
	return out
}

// packetBlocked traces a packet to each port and explains one that is not delivered.
func (s Subject) packetBlocked(a *Answer, x *corev1.Service) bool {
	if s.PacketState == nil {
		return false
	}
	for _, ask := range ServicePackets(x) {
		w := packet.Trace(*s.PacketState, ask)
		switch w.Outcome {
		case packet.Refused, packet.Dropped, packet.SometimesDelivered:
		default:
			continue
		}
		if w.Reason == packet.NoLocalEndpoint {
			continue // it depends on the node; serviceFacts lists them
		}
		a.State = "not reached"
		if w.Outcome == packet.SometimesDelivered {
			a.State = "sometimes not reached"
		}
		a.Cause = fmt.Sprintf("A connection to port %s of the Service fails (%s). %s", ask.Port, w.Reason, w.Cause)
		for _, f := range w.Fixes {
			fix := packetFix(f)
			if fix.See != nil && *fix.See == s.object() {
				fix.Run, fix.See = nil, nil
			}
			if port, ok := listeningPort(f.Description); ok {
				fix = s.setTarget(x, ask, port, f.Description)
			}
			a.Fixes = append(a.Fixes, fix)
		}
		s.othersSelected(a, x)
		a.Facts = append(a.Facts, fmt.Sprintf("%d endpoints are ready: readiness says nothing about this port",
			s.ready(x)))
		return true
	}
	return false
}

// packetFix is a remedy of a packet's trace as one of an answer.
func packetFix(f packet.Fix) Fix {
	if f.Run == "" {
		return Fix{Description: f.Description}
	}
	fix := commandFix(f.Description, f.Run)
	if f.See != nil {
		fix.See = &finding.Object{Kind: f.See.Kind, Namespace: f.See.Namespace, Name: f.See.Name}
	}
	return fix
}

// listeningPort parses the port out of the trace's remedy that names one where a process listens.
func listeningPort(say string) (string, bool) {
	_, rest, ok := strings.Cut(say, " be ")
	port, _, found := strings.Cut(rest, ", where a process listens")
	return port, ok && found
}

// setTarget returns the command that sets the Service's targetPort, from that remedy.
func (s Subject) setTarget(x *corev1.Service, ask packet.Request, port, say string) Fix {
	i := slices.IndexFunc(x.Spec.Ports, func(p corev1.ServicePort) bool {
		return fmt.Sprint(p.Port) == ask.Port && string(protocol(p.Protocol)) == ask.Protocol
	})
	if i < 0 {
		return Fix{Description: say}
	}
	return commandFix(say,
		s.kubectl(x, "json", fmt.Sprintf(`[{"op":"replace","path":"/spec/ports/%d/targetPort","value":%s}]`, i, port)))
}

// serviceFacts adds what else determines who gets the Service's traffic.
func (s Subject) serviceFacts(a *Answer, x *corev1.Service) {
	say := func(format string, args ...any) { a.Facts = append(a.Facts, fmt.Sprintf(format, args...)) }
	if x.Spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	if headless(x) {
		say("it is headless: its name stands for the Pods' addresses, and no port is translated")
		s.untranslated(say, x)
	} else if x.Spec.ClusterIP != "" {
		say("reached at %s, ports %s", x.Spec.ClusterIP, portsText(x))
	}
	if x.Spec.SessionAffinity == corev1.ServiceAffinityClientIP && !headless(x) {
		seconds := corev1.DefaultClientIPServiceAffinitySeconds
		if c := x.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
			seconds = *c.ClientIP.TimeoutSeconds
		}
		say("sessionAffinity ClientIP: an address stays with its endpoint for %d s after its last connection; "+
			"clients behind one address share it", seconds)
	}
	if x.Spec.PublishNotReadyAddresses {
		say("publishNotReadyAddresses: Pods get traffic whether they are ready or not")
	}
	if d := x.Spec.TrafficDistribution; d != nil {
		say("trafficDistribution %s: near endpoints are used while every ready one has a hint and one is near", *d)
	}
	if n := x.Spec.HealthCheckNodePort; n != 0 {
		say("load balancers ask port %d of each node for /healthz: 200 where there is a local endpoint, 503 "+
			"elsewhere", n)
	}
	s.localFacts(say, x)
	s.policyFacts(say, x)
}

func (s Subject) untranslated(say func(string, ...any), x *corev1.Service) {
	for _, p := range x.Spec.Ports {
		if n := p.TargetPort.IntValue(); n > 0 && int32(n) != p.Port {
			say("port %d is written with targetPort %d: who asks for port %d is not led to %d", p.Port, n, p.Port, n)
		}
	}
}

// localFacts names the nodes without endpoints for a Local traffic policy.
func (s Subject) localFacts(say func(string, ...any), x *corev1.Service) {
	external := x.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	internal := x.Spec.InternalTrafficPolicy != nil &&
		*x.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal
	if s.ClusterContext == nil || !external && !internal {
		return
	}
	var without []string
	for _, n := range s.ClusterContext.Nodes {
		if !slices.ContainsFunc(s.Pods, func(p *corev1.Pod) bool {
			return p.Spec.NodeName == n.Name && pod.IsReady(p)
		}) {
			without = append(without, n.Name)
		}
	}
	if len(without) == 0 {
		return
	}
	if external {
		say("externalTrafficPolicy is Local: what comes from outside to %s, which has no ready endpoint, is dropped",
			joinList(without))
	}
	if internal {
		say("internalTrafficPolicy is Local: what Pods on %s ask of it is dropped, as there is no ready endpoint there",
			joinList(without))
	}
}

// policyFacts names NetworkPolicies that limit who may connect.
func (s Subject) policyFacts(say func(string, ...any), x *corev1.Service) {
	if s.PacketState == nil {
		return
	}
	for _, p := range s.PacketState.Policies {
		if p.Namespace != x.Namespace || !policyrules.Applies(p, networkingv1.PolicyTypeIngress) ||
			!slices.ContainsFunc(s.Pods, func(q *corev1.Pod) bool {
				return policyrules.Selects(&p.Spec.PodSelector, q.Labels)
			}) {
			continue
		}
		who := fmt.Sprintf("only whom its %d rules name gets in", len(p.Spec.Ingress))
		if len(p.Spec.Ingress) == 0 {
			who = "it lets nobody in"
		}
		say("NetworkPolicy %s selects its Pods: %s, unless another policy does (gantry trace packet --from pod/NAME "+
			"--to service/%s:%s)", p.Name, who, x.Name, firstPort(x))
	}
}

func firstPort(x *corev1.Service) string {
	if len(x.Spec.Ports) == 0 {
		return "PORT"
	}
	return fmt.Sprint(x.Spec.Ports[0].Port)
}
