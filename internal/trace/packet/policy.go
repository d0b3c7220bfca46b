package packet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gantry-project/gantry/internal/policy/rules"
)

// Enforced judges by the rules that Gantry's own keeper of NetworkPolicies puts into the kernel: it makes them, and reads them as the kernel does.
type Enforced struct{}

// Judge implements Judge: what may go out of the sender, then what may come into the receiver.
func (Enforced) Judge(w World, f Flow) Ruling {
	state := rules.Build(policiesIn(w, f))
	var said []string
	for _, d := range []struct {
		pod   *v1.Pod
		own   netip.Addr
		where networkingv1.PolicyType
		maps  [2]string
		verb  string
	}{
		{f.From, f.FromAddr, networkingv1.PolicyTypeEgress, [2]string{rules.Egress4, rules.Egress6}, "out of"},
		{f.To, f.ToAddr, networkingv1.PolicyTypeIngress, [2]string{rules.Ingress4, rules.Ingress6}, "in to"},
	} {
		if d.pod == nil || d.pod.Spec.HostNetwork || !d.own.IsValid() {
			continue
		}
		m := d.maps[0]
		if d.own.Is6() {
			m = d.maps[1]
		}
		chain, isolated := strings.CutPrefix(state.Pods[m][d.own.String()], "goto ")
		if !isolated {
			continue
		}
		names := strings.Join(selecting(w, d.pod, d.where), ", ")
		if !passes(state, chain, f) {
			return Ruling{By: fmt.Sprintf("%s isolates Pod %s (%s), and nothing lets this %s it: %s/%d with %s", names, d.pod.Name, d.where, d.verb, f.Protocol, f.Port, other(f, d.pod)),
				Fix: Fix{Say: fmt.Sprintf("add a rule to %s, or another policy, that lets %s/%d with %s %s Pod %s", names, f.Protocol, f.Port, other(f, d.pod), d.verb, d.pod.Name)}}
		}
		said = append(said, fmt.Sprintf("%s lets it %s Pod %s", names, d.verb, d.pod.Name))
	}
	if len(said) == 0 {
		return Ruling{Allowed: true, By: "no NetworkPolicy isolates the Pods"}
	}
	return Ruling{Allowed: true, By: strings.Join(said, "; ")}
}

// other names the peer as a policy would have to.
func other(f Flow, own *v1.Pod) string {
	peer, addr := f.To, f.ToAddr
	if own == f.To {
		peer, addr = f.From, f.FromAddr
	}
	if peer == nil || peer.Spec.HostNetwork {
		return addr.String()
	}
	return fmt.Sprintf("Pods labelled %s in namespace %s", labels.Set(peer.Labels), peer.Namespace)
}

func policiesIn(w World, f Flow) rules.In {
	in := rules.In{Policies: w.Policies, Namespaces: map[string]map[string]string{}}
	for _, n := range w.Spaces {
		in.Namespaces[n.Name] = n.Labels
	}
	for _, p := range w.Pods {
		if p.Spec.HostNetwork || ended(p) || len(podIPs(p)) == 0 {
			continue
		}
		q := rules.Pod{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels, IPs: podIPs(p), Here: p == f.From || p == f.To}
		for _, c := range containers(p) {
			q.Ports = append(q.Ports, c.Ports...)
		}
		in.Pods = append(in.Pods, q)
	}
	return in
}

// selecting names the policies that rule over one direction of a Pod.
func selecting(w World, p *v1.Pod, d networkingv1.PolicyType) []string {
	var out []string
	for _, x := range w.Policies {
		sel, err := metav1.LabelSelectorAsSelector(&x.Spec.PodSelector)
		rules := slices.Contains(x.Spec.PolicyTypes, d) || len(x.Spec.PolicyTypes) == 0 && (d == networkingv1.PolicyTypeIngress || len(x.Spec.Egress) > 0)
		if err == nil && rules && x.Namespace == p.Namespace && sel.Matches(labels.Set(p.Labels)) {
			out = append(out, "NetworkPolicy "+x.Name)
		}
	}
	slices.Sort(out)
	return out
}

// passes reads a chain as the kernel does: the first line whose matches all hold decides; the chain ends with drop.
func passes(s rules.State, chain string, f Flow) bool {
	for _, line := range s.Chains[chain] {
		switch words := strings.Fields(line); {
		case len(words) == 0 || words[len(words)-1] != "return":
		case holds(s, words[:len(words)-1], f):
			return true
		}
	}
	return false
}

// holds reads the matches of one line. What it does not know does not hold: a trace must not promise more than the kernel does.
func holds(s rules.State, words []string, f Flow) bool {
	protocol := strings.ToLower(f.Protocol)
	for len(words) > 0 {
		used, yes := 0, false
		switch {
		case len(words) >= 9 && words[2] == "." && words[5] == ".":
			// ip daddr . meta l4proto . th dport @ports
			key := fmt.Sprintf("%s . %s . %d", side(words[1], f), protocol, f.Port)
			used, yes = 9, s.Sets[strings.TrimPrefix(words[8], "@")].Elements[key]
		case len(words) >= 3 && words[0] == "meta" && words[1] == "nfproto":
			used, yes = 3, f.ToAddr.Is4() == (words[2] == "ipv4")
		case len(words) >= 3 && words[0] == "meta" && words[1] == "l4proto":
			used, yes = 3, words[2] == protocol
		case len(words) >= 4 && words[2] == "!=":
			used, yes = 4, !within(words[3], side(words[1], f))
		case len(words) >= 3 && (words[1] == "saddr" || words[1] == "daddr") && strings.HasPrefix(words[2], "@"):
			used, yes = 3, s.Sets[words[2][1:]].Elements[side(words[1], f).String()]
		case len(words) >= 3 && (words[1] == "saddr" || words[1] == "daddr"):
			used, yes = 3, within(words[2], side(words[1], f))
		case len(words) >= 3 && words[1] == "dport":
			used, yes = 3, words[0] == protocol && portIn(words[2], f.Port)
		}
		if !yes {
			return false
		}
		words = words[used:]
	}
	return true
}

func side(word string, f Flow) netip.Addr {
	if word == "saddr" {
		return f.FromAddr
	}
	return f.ToAddr
}

func within(text string, ip netip.Addr) bool {
	r, err := netip.ParsePrefix(text)
	return err == nil && r.Contains(ip)
}

// portIn reads 80 or 80-90.
func portIn(text string, port uint16) bool {
	var first, last uint16
	if n, err := fmt.Sscanf(text, "%d-%d", &first, &last); n == 1 {
		last = first
	} else if err != nil {
		return false
	}
	return first <= port && port <= last
}
