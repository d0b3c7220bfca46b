package rules

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func isNamedPort(p networkingv1.NetworkPolicyPort) bool {
	return p.Port != nil && p.Port.Type == intstr.String
}

// protocol returns the protocol in lower case, tcp by default; false for one that nftables does not
// support.
func protocol(p *v1.Protocol) (string, bool) {
	if p == nil {
		return "tcp", true
	}
	switch *p {
	case v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP:
		return strings.ToLower(string(*p)), true
	case "":
		return "tcp", true
	}
	return "", false
}

// matches returns the matches for one port; a named port is looked up in subject's containers.
// None: no packet matches.
func matches(p networkingv1.NetworkPolicyPort, subject *Pod) []string {
	proto, ok := protocol(p.Protocol)
	switch {
	case !ok:
		return nil
	case p.Port == nil:
		return []string{"meta l4proto " + proto}
	case isNamedPort(p):
		var out []string
		for _, n := range subject.named(p.Port.StrVal, proto) {
			out = append(out, fmt.Sprintf("%s dport %d", proto, n))
		}
		return out
	}
	first, last := p.Port.IntVal, p.Port.IntVal
	if p.EndPort != nil {
		last = *p.EndPort
	}
	switch {
	case first < 1 || last > 65535 || last < first:
		return nil
	case first == last:
		return []string{fmt.Sprintf("%s dport %d", proto, first)}
	}
	return []string{fmt.Sprintf("%s dport %d-%d", proto, first, last)}
}

// named returns the container ports with that name and protocol.
func (p Pod) named(name, proto string) []int32 {
	var out []int32
	for _, c := range p.Ports {
		if have, ok := protocol(&c.Protocol); ok && c.Name == name && have == proto && c.ContainerPort >= 1 &&
			c.ContainerPort <= 65535 {
			out = append(out, c.ContainerPort)
		}
	}
	return out
}

// namedPeers returns rules for a named port of the peers. Each peer Pod may give the name another
// number, so a set holds address, protocol and port.
func (b *builder) namedPeers(s ruleScope, port networkingv1.NetworkPolicyPort) []string {
	proto, ok := protocol(port.Protocol)
	text, err := json.Marshal(s.peers)
	if !ok || err != nil {
		return nil
	}
	key := []string{s.namespace, string(text), proto, port.Port.StrVal}
	four, six := name("ports4", key...), name("ports6", key...)
	if _, made := b.state.Sets[four]; !made {
		b.state.Sets[four] = Set{"ipv4_addr . inet_proto . inet_service", map[string]bool{}}
		b.state.Sets[six] = Set{"ipv6_addr . inet_proto . inet_service", map[string]bool{}}
		for _, pod := range b.in.Pods {
			for _, n := range pod.named(port.Port.StrVal, proto) {
				for _, ip := range pod.IPs {
					set := six
					if ip.Is4() {
						set = four
					}
					if b.peerMatches(s, pod, ip) {
						b.state.Sets[set].Elements[fmt.Sprintf("%s . %s . %d", ip, proto, n)] = true
					}
				}
			}
		}
	}
	lookup := " " + s.side + " . meta l4proto . th dport @"
	return []string{joinMatches("ip" + lookup + four), joinMatches("ip6" + lookup + six)}
}

// peerMatches reports whether the Pod's address is one of the peers.
func (b *builder) peerMatches(s ruleScope, pod Pod, ip netip.Addr) bool {
	if len(s.peers) == 0 || b.peersMatch(s.namespace, s.peers, pod) {
		return true
	}
	for _, p := range s.peers {
		if p.IPBlock != nil && inBlock(p.IPBlock, ip) {
			return true
		}
	}
	return false
}
