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

// Pod is what policies see of a Pod with addresses of its own.
type Pod struct {
	Namespace, Name string
	UID             string // as the runtime knows it; empty: not known
	Labels          map[string]string
	IPs             []netip.Addr
	Ports           []v1.ContainerPort
	// Local tells that it is on this node. Unknown that only its address is known yet: any policy
	// of its namespace isolates it, none allows anything.
	Local, Unknown bool
}

// PodID names one Pod.
type PodID struct{ Namespace, Name, UID string }

// In is what Build looks at.
type In struct {
	Policies   []*networkingv1.NetworkPolicy
	Namespaces map[string]map[string]string // labels
	Pods       []Pod                        // of all nodes
}

// builder gathers a State.
type builder struct {
	in    In
	state State
}

// Build is what the table of this node should have.
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
			if p.Unknown || !applies(policy, d) || !selects(&policy.Spec.PodSelector, p.Labels) {
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

// dispatch leads the Pod's addresses to its chain.
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

// applies tells whether a policy rules over that direction.
func applies(p *networkingv1.NetworkPolicy, d networkingv1.PolicyType) bool {
	if len(p.Spec.PolicyTypes) > 0 {
		return slices.Contains(p.Spec.PolicyTypes, d)
	}
	return d == networkingv1.PolicyTypeIngress || len(p.Spec.Egress) > 0
}

// selects tells whether a selector means an object with these labels; one that cannot be read means
// none.
func selects(s *metav1.LabelSelector, have map[string]string) bool {
	sel, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && sel.Matches(labels.Set(have))
}

// allowed are the lines that let through what a policy allows. A line ends with return: the packet
// goes on to the other direction's chain.
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

// ruleTexts is every peer with every port. Subject is the Pod that ports are of, nil when they are
// the peers'.
func (b *builder) ruleTexts(s ruleScope, ports []networkingv1.NetworkPolicyPort, subject *Pod) []string {
	var lines []string
	peers := b.peerTexts(s)
	if len(ports) == 0 {
		ports = nil
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
