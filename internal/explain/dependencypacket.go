package explain

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/trace/packet"
)

// PodPackets returns requests to trace packets from a Pod to what its containers that failed, or
// wait, name in their command lines and environment; none of a Pod on its node's network.
func PodPackets(p *corev1.Pod) []packet.Request {
	if p == nil || p.Spec.HostNetwork {
		return nil
	}
	asked := ContainersToRead(p)
	var out []packet.Request
	for _, c := range containers(p) {
		asks := probePackets(c)
		if _, ok := asked[c.spec.Name]; ok {
			asks = append(asks, hostPortsIn(c.spec)...)
		}
		for _, d := range asks {
			if asks, ok := podPacket(p, d); ok {
				out = append(out, asks)
			}
		}
	}
	return out
}

// podPacket is the request for a packet to an address that a Pod's container names; ok is false for
// one that only the Pod itself, or somebody outside, can have.
func podPacket(p *corev1.Pod, d hostPort) (packet.Request, bool) {
	if d.port == 0 || d.host == "localhost" || strings.Trim(d.host, "0123456789.:") == "" {
		return packet.Request{}, false
	}
	return packet.Request{From: packet.Peer{Kind: "pod", Namespace: p.Namespace, Name: p.Name},
		To: packet.Peer{Kind: "name", Name: d.host}, Port: fmt.Sprint(d.port),
		Protocol: string(corev1.ProtocolTCP)}, true
}

// packetFails adds what stops a packet from the Pod to an address that a container names: a policy,
// or that nothing listens there.
func packetFails(a *Answer, in In, c container, d hostPort) bool {
	asks, ok := podPacket(in.Pod, d)
	if in.PacketState == nil || !ok {
		return false
	}
	w := packet.Trace(*in.PacketState, asks)
	if w.Outcome != packet.Refused && w.Outcome != packet.Dropped && w.Reason != packet.NotClusterDNS {
		return false
	}
	why := fmt.Sprintf("%s asks for %s:%d, and such a connection fails (%s). %s", c.title(), d.host, d.port, w.Reason,
		w.Cause)
	var fixes []Fix
	for _, f := range w.Fixes {
		fixes = append(fixes, packetFix(f))
	}
	f := finding.Finding{Code: "DependencyFails", Severity: finding.Threat, Stage: finding.StageRun,
		Object: in.object(), Message: why, Remedies: asRemedies(fixes)}
	f.Field, f.Value = hostField(c, pathOf(in.Pod, c), d.host)
	if ns, name, ok := strings.Cut(w.Service, "/"); ok {
		f.Related = []finding.Object{{Kind: "Service", Namespace: ns, Name: name}}
	}
	if in.Now.Sub(in.Pod.CreationTimestamp.Time) < startTime {
		f.Severity = finding.Note
	}
	a.Cause = strings.TrimSpace(a.Cause + " " + why)
	a.Findings = append(a.Findings, f)
	a.Fixes = append(fixes, a.Fixes...)
	return true
}
