package rules

import (
	"encoding/json"
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
)

// ruleScope is the peers of one rule, in the namespace of its policy.
type ruleScope struct {
	namespace string
	side      string // which address of the packet is the peers': saddr or daddr
	peers     []networkingv1.NetworkPolicyPeer
}

// peerTexts returns matches, of which one must hold. No peers means everybody.
func (b *builder) peerTexts(s ruleScope) []string {
	if len(s.peers) == 0 {
		return []string{""}
	}
	var out []string
	var chosen []networkingv1.NetworkPolicyPeer
	for _, p := range s.peers {
		if p.IPBlock != nil {
			if m, ok := block(p.IPBlock, s.side); ok {
				out = append(out, m)
			}
			continue
		}
		chosen = append(chosen, p)
	}
	if len(chosen) == 0 {
		return out
	}
	text, err := json.Marshal(chosen)
	if err != nil {
		return out
	}
	four, six := name("pods4", s.namespace, string(text)), name("pods6", s.namespace, string(text))
	if _, made := b.state.Sets[four]; !made {
		b.state.Sets[four], b.state.Sets[six] = Set{"ipv4_addr", map[string]bool{}}, Set{"ipv6_addr", map[string]bool{}}
		for _, pod := range b.in.Pods {
			if !b.peersMatch(s.namespace, chosen, pod) {
				continue
			}
			for _, ip := range pod.IPs {
				set := six
				if ip.Is4() {
					set = four
				}
				b.state.Sets[set].Elements[ip.String()] = true
			}
		}
	}
	return append(out, "ip "+s.side+" @"+four, "ip6 "+s.side+" @"+six)
}

// peersMatch reports whether one of the peers' selectors matches the Pod.
func (b *builder) peersMatch(namespace string, peers []networkingv1.NetworkPolicyPeer, pod Pod) bool {
	if pod.Unknown {
		return false
	}
	for _, p := range peers {
		if p.NamespaceSelector == nil && p.PodSelector == nil {
			continue
		}
		if p.NamespaceSelector == nil && pod.Namespace != namespace {
			continue
		}
		if p.NamespaceSelector != nil {
			if have, known := b.in.Namespaces[pod.Namespace]; !known || !Selects(p.NamespaceSelector, have) {
				continue
			}
		}
		if p.PodSelector == nil || Selects(p.PodSelector, pod.Labels) {
			return true
		}
	}
	return false
}

// block returns the match of an IPBlock without its exceptions; false if the block is invalid or
// empty.
func block(b *networkingv1.IPBlock, side string) (string, bool) {
	r, except, ok := parseBlock(b)
	if !ok {
		return "", false
	}
	ip, proto := "ip ", "ipv4"
	if r.Addr().Is6() {
		ip, proto = "ip6 ", "ipv6"
	}
	m := "meta nfproto " + proto
	if r.Bits() > 0 {
		m = ip + side + " " + r.String()
	}
	for _, e := range except {
		m += " " + ip + side + " != " + e.String()
	}
	return m, true
}

func parseBlock(b *networkingv1.IPBlock) (netip.Prefix, []netip.Prefix, bool) {
	r, err := netip.ParsePrefix(b.CIDR)
	if err != nil || r.Addr().Is4In6() {
		return r, nil, false
	}
	r = r.Masked()
	var except []netip.Prefix
	for _, text := range b.Except {
		e, err := netip.ParsePrefix(text)
		if err != nil || e.Addr().Is4In6() {
			return r, nil, false // an exception cannot be parsed: allow nothing
		}
		if e = e.Masked(); e.Bits() <= r.Bits() && e.Overlaps(r) {
			return r, nil, false
		} else if e.Overlaps(r) {
			except = append(except, e)
		}
	}
	return r, except, true
}

// inBlock reports whether ip is in the block and not in its exceptions.
func inBlock(b *networkingv1.IPBlock, ip netip.Addr) bool {
	r, except, ok := parseBlock(b)
	if !ok || !r.Contains(ip) {
		return false
	}
	for _, e := range except {
		if e.Contains(ip) {
			return false
		}
	}
	return true
}
