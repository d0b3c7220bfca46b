package rules

import (
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Pod is the part of a Pod with its own addresses that policies depend on.
type Pod struct {
	Namespace, Name string
	UID             string // as the runtime passed it; empty: not known
	Labels          map[string]string
	IPs             []netip.Addr
	Ports           []v1.ContainerPort
	// Local: the Pod is on this node. Unknown: only its addresses are known yet; any policy in its
	// namespace isolates it, and none allows it anything.
	Local, Unknown bool
}

// PodID identifies a Pod.
type PodID struct{ Namespace, Name, UID string }

// In is the input of Build.
type In struct {
	Policies   []*networkingv1.NetworkPolicy
	Namespaces map[string]map[string]string // labels by name
	Pods       []Pod                        // of all nodes
}

// builder collects a State.
type builder struct {
	in    In
	state State
}

// Build returns the content of this node's table. It does not modify in.
func Build(in In) State {
	b := &builder{in: in, state: State{Sets: map[string]Set{}, Chains: map[string][]string{},
		Pods: map[string]map[string]string{}}}
	for _, m := range []string{Ingress4, Ingress6, Egress4, Egress6} {
		b.state.Pods[m] = map[string]string{}
	}
	b.state.Sets[Local4], b.state.Sets[Local6] = Set{"ipv4_addr . ipv4_addr", map[string]bool{}},
		Set{"ipv6_addr . ipv6_addr", map[string]bool{}}
	policies := map[string][]*networkingv1.NetworkPolicy{}
	for _, p := range in.Policies {
		if p != nil {
			policies[p.Namespace] = append(policies[p.Namespace], p)
		}
	}
	for _, ps := range policies {
		slices.SortFunc(ps, func(a, b *networkingv1.NetworkPolicy) int { return strings.Compare(a.Name, b.Name) })
	}
	for _, p := range in.Pods {
		if p.Local && len(policies[p.Namespace]) > 0 {
			b.addPod(p, policies[p.Namespace])
		}
	}
	return b.state
}

func (b *builder) addPod(p Pod, policies []*networkingv1.NetworkPolicy) {
	for _, d := range []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress} {
		isolated := p.Unknown
		var lines []string
		for _, policy := range policies {
			if p.Unknown || !Applies(policy, d) || !Selects(&policy.Spec.PodSelector, p.Labels) {
				continue
			}
			isolated = true
			lines = append(lines, b.allowed(policy, d, p)...)
		}
		if !isolated {
			continue
		}
		slices.Sort(lines)
		lines = append(slices.Compact(lines), "drop")
		chain := name(strings.ToLower(string(d)), lines...)
		b.state.Chains[chain] = lines
		b.dispatch(p, d, chain)
	}
}

// dispatch maps the Pod's addresses to its chain.
func (b *builder) dispatch(p Pod, d networkingv1.PolicyType, chain string) {
	for _, ip := range p.IPs {
		m, self := Ingress4, Local4
		switch {
		case ip.Is4() && d == networkingv1.PolicyTypeEgress:
			m = Egress4
		case !ip.Is4() && d == networkingv1.PolicyTypeEgress:
			m, self = Egress6, Local6
		case !ip.Is4():
			m, self = Ingress6, Local6
		}
		b.state.Pods[m][ip.String()] = "goto " + chain
		b.state.Sets[self].Elements[ip.String()+" . "+ip.String()] = true
	}
}

// Applies reports whether the policy applies to direction d of the Pods that it selects.
func Applies(p *networkingv1.NetworkPolicy, d networkingv1.PolicyType) bool {
	if len(p.Spec.PolicyTypes) > 0 {
		return slices.Contains(p.Spec.PolicyTypes, d)
	}
	return d == networkingv1.PolicyTypeIngress || len(p.Spec.Egress) > 0
}

// Selects reports whether the selector matches the labels; an invalid one matches nothing.
func Selects(s *metav1.LabelSelector, have map[string]string) bool {
	sel, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && sel.Matches(labels.Set(have))
}

// allowed returns rules that accept what the policy allows. They end with return, so that the
// packet goes on to the chain of the other direction.
func (b *builder) allowed(p *networkingv1.NetworkPolicy, d networkingv1.PolicyType, pod Pod) []string {
	var lines []string
	if d == networkingv1.PolicyTypeIngress {
		for _, r := range p.Spec.Ingress {
			lines = append(lines, b.ruleTexts(ruleScope{p.Namespace, "saddr", r.From}, r.Ports, &pod)...)
		}
		return lines
	}
	for _, r := range p.Spec.Egress {
		lines = append(lines, b.ruleTexts(ruleScope{p.Namespace, "daddr", r.To}, r.Ports, nil)...)
	}
	return lines
}

// ruleTexts returns rules for every combination of peer and port. subject is the Pod whose ports
// are meant, nil if they are the peers'.
func (b *builder) ruleTexts(s ruleScope, ports []networkingv1.NetworkPolicyPort, subject *Pod) []string {
	var lines []string
	peers := b.peerTexts(s)
	if len(ports) == 0 {
		for _, peer := range peers {
			lines = append(lines, joinMatches(peer, ""))
		}
	}
	for _, port := range ports {
		if isNamedPort(port) && subject == nil {
			lines = append(lines, b.namedPeers(s, port)...)
			continue
		}
		for _, match := range matches(port, subject) {
			for _, peer := range peers {
				lines = append(lines, joinMatches(peer, match))
			}
		}
	}
	return lines
}

func joinMatches(matches ...string) string {
	var out []string
	for _, m := range append(matches, "return") {
		if m != "" {
			out = append(out, m)
		}
	}
	return strings.Join(out, " ")
}
