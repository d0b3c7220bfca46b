package packet

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gantry-project/gantry/internal/networkpolicy/rules"
	podutil "github.com/gantry-project/gantry/internal/pod"
)

// NetworkPolicies evaluates policies by the rules that Gantry's controller writes into the kernel:
// it builds them and interprets them as the kernel does.
type NetworkPolicies struct{}

// Evaluate implements PolicyEvaluator: first egress of the sender, then ingress of the receiver.
func (NetworkPolicies) Evaluate(w ClusterState, f Flow) PolicyResult {
	state := rules.Build(policiesIn(w, f))
	var output []string
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
		if !chainAccepts(state, chain, f) {
			return PolicyResult{By: fmt.Sprintf("%s isolates Pod %s (%s), and nothing lets this %s it: %s/%d with %s",
				names, d.pod.Name, d.where, d.verb, f.Protocol, f.Port, otherNamespaceText(f, d.pod)),
				Fix: Fix{Description: fmt.Sprintf(
					"add a rule to %s, or another policy, that lets %s/%d with %s %s Pod %s", names, f.Protocol, f.Port,
					otherNamespaceText(f, d.pod), d.verb, d.pod.Name), Run: allowCommand(w, f, d.pod, d.where)}}
		}
		output = append(output, fmt.Sprintf("%s lets it %s Pod %s", names, d.verb, d.pod.Name))
	}
	if len(output) == 0 {
		return PolicyResult{Allowed: true, By: "no NetworkPolicy isolates the Pods"}
	}
	return PolicyResult{Allowed: true, By: strings.Join(output, "; ")}
}

// otherNamespaceText describes the peer as a policy would have to select it.
func otherNamespaceText(f Flow, own *v1.Pod) string {
	peer, addr := f.To, f.ToAddr
	if own == f.To {
		peer, addr = f.From, f.FromAddr
	}
	if peer == nil || peer.Spec.HostNetwork {
		return addr.String()
	}
	if len(peer.Labels) == 0 {
		return "Pods without labels in namespace " + peer.Namespace
	}
	return fmt.Sprintf("Pods labelled %s in namespace %s", labels.Set(peer.Labels), peer.Namespace)
}

// generated are labels that controllers give their Pods and change with each template or Pod, and
// those of the node that binding copies.
var generated = []string{"pod-template-hash", "controller-revision-hash", "pod-template-generation",
	"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", v1.LabelTopologyZone,
	v1.LabelTopologyRegion}

// allowCommand is the command that adds a rule to a Pod's one policy, which lets a flow pass; empty
// where several policies select the Pod, or the peer is no Pod that policies can select.
func allowCommand(w ClusterState, f Flow, own *v1.Pod, where networkingv1.PolicyType) string {
	peer, list, side := f.From, "ingress", "from"
	if where == networkingv1.PolicyTypeEgress {
		peer, list, side = f.To, "egress", "to"
	}
	names := selecting(w, own, where)
	if len(names) != 1 || peer == nil || peer.Spec.HostNetwork {
		return ""
	}
	name := strings.TrimPrefix(names[0], "NetworkPolicy ")
	i := slices.IndexFunc(w.Policies, func(p *networkingv1.NetworkPolicy) bool {
		return p.Namespace == own.Namespace && p.Name == name
	})
	if i < 0 {
		return ""
	}
	match := maps.Clone(peer.Labels)
	for _, key := range generated {
		delete(match, key)
	}
	who := map[string]any{"podSelector": map[string]any{"matchLabels": match}}
	if len(match) == 0 {
		who["podSelector"] = map[string]any{}
	}
	if peer.Namespace != own.Namespace {
		who["namespaceSelector"] = map[string]any{"matchLabels": map[string]string{
			v1.LabelMetadataName: peer.Namespace}}
	}
	port := map[string]any{"port": f.Port, "protocol": f.Protocol}
	rule := any(map[string]any{side: []any{who}, "ports": []any{port}})
	at := "/spec/" + list + "/-"
	s := &w.Policies[i].Spec
	if list == "ingress" && len(s.Ingress) == 0 || list == "egress" && len(s.Egress) == 0 {
		at, rule = "/spec/"+list, []any{rule}
	}
	patch, err := json.Marshal([]any{map[string]any{"op": "add", "path": at, "value": rule}})
	if err != nil {
		return ""
	}
	return fmt.Sprintf("kubectl -n %s patch networkpolicy %s --type=json -p '%s'", own.Namespace, name, patch)
}

func policiesIn(w ClusterState, f Flow) rules.In {
	in := rules.In{Policies: w.Policies, Namespaces: map[string]map[string]string{}}
	for _, n := range w.Namespaces {
		in.Namespaces[n.Name] = n.Labels
	}
	for _, p := range w.Pods {
		if p.Spec.HostNetwork || podutil.IsTerminal(p) || len(podIPs(p)) == 0 {
			continue
		}
		q := rules.Pod{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels, IPs: podIPs(p),
			Local: p == f.From || p == f.To}
		for _, c := range containers(p) {
			q.Ports = append(q.Ports, c.Ports...)
		}
		in.Pods = append(in.Pods, q)
	}
	return in
}

// selecting returns the names of the policies that apply to one direction of a Pod.
func selecting(w ClusterState, p *v1.Pod, d networkingv1.PolicyType) []string {
	var out []string
	for _, x := range w.Policies {
		if x.Namespace == p.Namespace && rules.Applies(x, d) && rules.Selects(&x.Spec.PodSelector, p.Labels) {
			out = append(out, "NetworkPolicy "+x.Name)
		}
	}
	slices.Sort(out)
	return out
}

// chainAccepts evaluates a chain as the kernel does: the first rule whose matches all hold decides;
// the chain ends with drop.
func chainAccepts(s rules.State, chain string, f Flow) bool {
	for _, line := range s.Chains[chain] {
		switch fields := strings.Fields(line); {
		case len(fields) == 0 || fields[len(fields)-1] != "return":
		case ruleMatches(s, fields[:len(fields)-1], f):
			return true
		}
	}
	return false
}

// ruleMatches evaluates the matches of one rule. An unknown match does not hold: a trace must not
// promise more than the kernel does.
func ruleMatches(s rules.State, fields []string, f Flow) bool {
	protocol := strings.ToLower(f.Protocol)
	for len(fields) > 0 {
		used, yes := 0, false
		switch {
		case len(fields) >= 9 && fields[2] == "." && fields[5] == ".":
			// ip daddr . meta l4proto . th dport @ports
			key := fmt.Sprintf("%s . %s . %d", addressOf(fields[1], f), protocol, f.Port)
			used, yes = 9, s.Sets[strings.TrimPrefix(fields[8], "@")].Elements[key]
		case len(fields) >= 3 && fields[0] == "meta" && fields[1] == "nfproto":
			used, yes = 3, f.ToAddr.Is4() == (fields[2] == "ipv4")
		case len(fields) >= 3 && fields[0] == "meta" && fields[1] == "l4proto":
			used, yes = 3, fields[2] == protocol
		case len(fields) >= 4 && fields[2] == "!=":
			used, yes = 4, !within(fields[3], addressOf(fields[1], f))
		case len(fields) >= 3 && (fields[1] == "saddr" || fields[1] == "daddr") && strings.HasPrefix(fields[2], "@"):
			used, yes = 3, s.Sets[fields[2][1:]].Elements[addressOf(fields[1], f).String()]
		case len(fields) >= 3 && (fields[1] == "saddr" || fields[1] == "daddr"):
			used, yes = 3, within(fields[2], addressOf(fields[1], f))
		case len(fields) >= 3 && fields[1] == "dport":
			used, yes = 3, fields[0] == protocol && portIn(fields[2], f.Port)
		}
		if !yes {
			return false
		}
		fields = fields[used:]
	}
	return true
}

func addressOf(word string, f Flow) netip.Addr {
	if word == "saddr" {
		return f.FromAddr
	}
	return f.ToAddr
}

func within(text string, ip netip.Addr) bool {
	r, err := netip.ParsePrefix(text)
	return err == nil && r.Contains(ip)
}

// portIn parses 80 or 80-90.
func portIn(text string, port uint16) bool {
	var first, last uint16
	if n, err := fmt.Sscanf(text, "%d-%d", &first, &last); n == 1 {
		last = first
	} else if err != nil {
		return false
	}
	return first <= port && port <= last
}
