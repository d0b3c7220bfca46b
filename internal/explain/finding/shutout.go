package finding

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
	policyrules "github.com/gantry-project/gantry/internal/networkpolicy/rules"
)

// shutOut finds addresses in commands, arguments and variables that NetworkPolicies shut the
// object's Pods out of: those over them let nothing out to it, or those over its Pods let nothing
// in from them. What cannot be known is taken for open.
func shutOut(c *Cluster, o metav1.Object, self Object) []Finding {
	spec, _ := podSpecOf(o)
	if spec == nil || spec.HostNetwork || !c.Read("NetworkPolicy") || !c.Read("Pod") ||
		len(c.Objects["NetworkPolicy"]) == 0 {
		return nil
	}
	own := labelled{c.outermost(o, self), labelsOfPods(o)}
	out := c.policiesFor(self.Namespace, own.labels, networkingv1.PolicyTypeEgress)
	return eachContainer(o, self, func(x place) []Finding {
		var found []Finding
		for _, a := range c.addressesOf(x.c, self.Namespace) {
			d, ok := c.destinationOf(a, self.Namespace)
			if !ok || d.has(own.labels, self.Namespace) {
				continue
			}
			w := way{from: own, ns: self.Namespace, to: d, by: x, asked: a, side: networkingv1.PolicyTypeEgress}
			if len(out) > 0 && !c.allowsConnection(out, w) {
				found = append(found, c.shutFinding(out, w))
			}
			if f, shut := c.shutIn(w); shut {
				found = append(found, f)
			}
		}
		return found[:min(len(found), 3)]
	})
}

// way is a connection from Pods to a destination, and whose policies are asked about it.
type way struct {
	from  labelled
	ns    string // theirs
	to    destination
	by    place                   // the container that names it
	asked namedAddress            // as it names it
	side  networkingv1.PolicyType // egress of the one, or ingress of the other
}

// has reports whether Pods with labels are among those that have the address.
func (d destination) has(own map[string]string, ns string) bool {
	if d.namespace != ns {
		return false
	}
	if len(d.selector) > 0 {
		return labels.SelectorFromSet(d.selector).Matches(labels.Set(own))
	}
	return slices.ContainsFunc(d.pods, func(x labelled) bool { return maps.Equal(x.labels, own) })
}

// shutIn is shutFinding for the policies over a destination's Pods, where they are known.
func (c *Cluster) shutIn(w way) (Finding, bool) {
	w.side = networkingv1.PolicyTypeIngress
	if !w.to.known || c.Namespace != "" && c.Namespace != w.to.namespace {
		return Finding{}, false
	}
	var first []*networkingv1.NetworkPolicy
	for _, p := range w.to.pods {
		over := c.policiesFor(w.to.namespace, p.labels, w.side)
		one := w
		one.to.pods = []labelled{p}
		if len(over) == 0 || c.allowsConnection(over, one) {
			return Finding{}, false
		}
		if first == nil {
			first = over
		}
	}
	if !slices.ContainsFunc(first, func(p *networkingv1.NetworkPolicy) bool { return len(p.Spec.Ingress) > 0 }) {
		return Finding{}, false // nobody is let in: that is told of the policy
	}
	return c.shutFinding(first, w), true
}

// policiesFor are the policies of a direction that select Pods with labels, by name.
func (c *Cluster) policiesFor(ns string, own map[string]string,
	d networkingv1.PolicyType) []*networkingv1.NetworkPolicy {
	out := slices.DeleteFunc(in[*networkingv1.NetworkPolicy](c, "NetworkPolicy", ns),
		func(p *networkingv1.NetworkPolicy) bool {
			return !policyrules.Applies(p, d) || !policyrules.Selects(&p.Spec.PodSelector, own)
		})
	slices.SortFunc(out, func(a, b *networkingv1.NetworkPolicy) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// allowsConnection reports whether a rule of the policies lets the connection pass, or may.
func (c *Cluster) allowsConnection(over []*networkingv1.NetworkPolicy, w way) bool {
	for _, p := range over {
		if w.side == networkingv1.PolicyTypeIngress {
			for _, r := range p.Spec.Ingress {
				if c.ruleLets(p.Namespace, r.From, r.Ports, w) {
					return true
				}
			}
			continue
		}
		for _, r := range p.Spec.Egress {
			if c.ruleLets(p.Namespace, r.To, r.Ports, w) {
				return true
			}
		}
	}
	return false
}

func (c *Cluster) ruleLets(ns string, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort,
	w way) bool {
	if len(w.to.pods) == 0 {
		return portOpen(ports, w.asked.port, "", nil) && c.peersLet(ns, peers, w, nil)
	}
	for i := range w.to.pods {
		x := &w.to.pods[i]
		if !c.peersLet(ns, peers, w, x) {
			continue
		}
		if len(w.to.ports) == 0 && portOpen(ports, w.asked.port, "", func(n string) []int {
			return c.named(*x, n)
		}) {
			return true
		}
		for _, p := range w.to.ports {
			for _, n := range c.portNumbers(*x, p) {
				if portOpen(ports, n, cmp.Or(p.Protocol, corev1.ProtocolTCP), func(n string) []int {
					return c.named(*x, n)
				}) {
					return true
				}
			}
		}
	}
	return false
}

// portOpen reports whether a rule's ports have one, or may; without a protocol that of any. named
// resolves names; nil: they are not known.
func portOpen(ports []networkingv1.NetworkPolicyPort, port int, protocol corev1.Protocol,
	named func(string) []int) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		switch {
		case protocol != "" && protocolOf(p) != protocol:
			return false
		case p.Port == nil || port == 0:
			return true
		case p.Port.StrVal != "":
			return named == nil || slices.Contains(named(p.Port.StrVal), port)
		case p.EndPort != nil:
			return int(p.Port.IntVal) <= port && port <= int(*p.EndPort)
		}
		return int(p.Port.IntVal) == port
	})
}

// peersLet reports whether a rule of a policy in a namespace is about the other side of a
// connection, or may be: x is the Pod at its end, nil where there is none or it is not known.
func (c *Cluster) peersLet(ns string, peers []networkingv1.NetworkPolicyPeer, w way, x *labelled) bool {
	namespace, own, addr := w.to.namespace, map[string]string(nil), w.to.addr
	switch {
	case w.side == networkingv1.PolicyTypeIngress:
		namespace, own, addr = w.ns, w.from.labels, netip.Addr{}
	case x != nil:
		own = x.labels
	}
	podKnown := w.side == networkingv1.PolicyTypeIngress || x != nil
	return len(peers) == 0 || slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		switch {
		case p.IPBlock != nil && w.side == networkingv1.PolicyTypeEgress && x != nil:
			return inBlock(p.IPBlock, c.addressOf(*x))
		case p.IPBlock != nil:
			return inBlock(p.IPBlock, addr)
		case namespace == "":
			return false
		case p.NamespaceSelector == nil && namespace != ns,
			p.NamespaceSelector != nil && !c.namespaceMatches(p.NamespaceSelector, namespace):
			return false
		case p.PodSelector == nil || !podKnown:
			return true
		}
		return policyrules.Selects(p.PodSelector, own)
	})
}

// inBlock reports whether an address is in a block, or may be: one that is not known may.
func inBlock(b *networkingv1.IPBlock, addr netip.Addr) bool {
	within := func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && p.Contains(addr)
	}
	return !addr.IsValid() || within(b.CIDR) && !slices.ContainsFunc(b.Except, within)
}

// shutFinding says that policies of a side shut a connection out.
func (c *Cluster) shutFinding(over []*networkingv1.NetworkPolicy, w way) Finding {
	p, x, a := over[0], w.by, w.asked
	side, verb, rules := "egress", "out to", len(p.Spec.Egress)
	if w.side == networkingv1.PolicyTypeIngress {
		side, verb, rules = "ingress", "in from", len(p.Spec.Ingress)
	}
	f := Finding{Code: "PolicyShutsOut", Severity: Threat, Stage: StageTraffic, Object: objectOf("NetworkPolicy", p),
		Field: "spec." + side, Value: fmt.Sprint(rules), Related: []Object{w.from.object},
		Numbers: map[string]string{"rules": fmt.Sprint(rules)}}
	if w.to.service != (Object{}) {
		f.Related = append(f.Related, w.to.service)
	}
	var names []string
	for _, q := range over {
		names = append(names, q.Name)
	}
	who, port := w.from.object, c.portAsked(w)
	asked := a.host
	if a.port != 0 {
		asked = fmt.Sprintf("%s, port %d", a.host, a.port)
		f.Numbers["port"] = fmt.Sprint(a.port)
	}
	target := w.to.text
	if port != 0 {
		target += fmt.Sprintf(" (port %d of its Pods)", port)
		f.Numbers["targetPort"], f.Want = fmt.Sprint(port), fmt.Sprint(port)
	}
	f.Message = fmt.Sprintf("Container %s of %s %s names %s (%s), and no rule of NetworkPolicy %s lets its "+
		"connections to %s pass.", x.c.Name, who.Kind, who.Name, asked, a.field, joined(names), target)
	if rules == 0 && len(over) == 1 {
		f.Message += fmt.Sprintf(" It has no %s rule at all.", side)
	}
	if n, ok := c.nearestPeer(over, w); ok {
		f.Remedies = n.remedies
		f.Message += n.text
	}
	if rule, ok := c.openingRule(w, port); ok {
		f.Remedies = append(f.Remedies, Remedy{Say: fmt.Sprintf("add a rule to NetworkPolicy %s that lets this %s %s",
			p.Name, verb, map[bool]string{true: who.Name, false: w.to.text}[w.side == networkingv1.PolicyTypeIngress]),
			Run: []string{addRule(f.Object, side, rules, rule)}})
	}
	return f
}

// portAsked is the port of the Pods that a connection asks for; 0 where that is not one.
func (c *Cluster) portAsked(w way) int {
	if len(w.to.pods) > 0 && len(w.to.ports) == 1 {
		if n := c.portNumbers(w.to.pods[0], w.to.ports[0]); len(n) == 1 {
			return n[0]
		}
	}
	return 0
}

// openingRule is a rule that lets a connection pass; ok is false where the other side has no labels
// that tell it.
func (c *Cluster) openingRule(w way, port int) (rule map[string]any, ok bool) {
	list, other, ns, policyNS := "to", map[string]string(nil), w.to.namespace, w.ns
	if len(w.to.pods) > 0 {
		other = w.to.pods[0].labels
	}
	if w.to.service != (Object{}) {
		if s, found := get[*corev1.Service](c, "Service", w.to.service.Namespace, w.to.service.Name); found {
			other = s.Spec.Selector
		}
	}
	if w.side == networkingv1.PolicyTypeIngress {
		list, other, ns, policyNS = "from", w.from.labels, w.ns, w.to.namespace
	}
	peer := map[string]any{}
	switch {
	case w.to.addr.IsValid() && len(w.to.pods) == 0:
		peer["ipBlock"] = map[string]any{"cidr": netip.PrefixFrom(w.to.addr, w.to.addr.BitLen()).String()}
	case ns == "":
		if w.asked.port == 0 {
			return nil, false
		}
		peer["ipBlock"] = map[string]any{"cidr": "0.0.0.0/0"}
	default:
		match := maps.Clone(other)
		maps.DeleteFunc(match, func(k, _ string) bool { return madeLater[k] })
		if match == nil {
			match = map[string]string{}
		}
		peer["podSelector"] = map[string]any{"matchLabels": match}
		if ns != policyNS {
			peer["namespaceSelector"] = map[string]any{"matchLabels": map[string]string{
				corev1.LabelMetadataName: ns}}
		}
	}
	rule = map[string]any{list: []any{peer}}
	if port == 0 && len(w.to.pods) == 0 {
		port = w.asked.port // nothing is known of the Pods' ports
	}
	if port != 0 {
		protocol := corev1.ProtocolTCP
		if len(w.to.ports) == 1 {
			protocol = cmp.Or(w.to.ports[0].Protocol, protocol)
		}
		rule["ports"] = []any{map[string]any{"port": port, "protocol": protocol}}
	}
	return rule, true
}

// addRule is the command that adds a rule to a policy that has some number of them.
func addRule(policy Object, side string, rules int, rule map[string]any) string {
	at, value := "/spec/"+side+"/-", any(rule)
	if rules == 0 {
		at, value = "/spec/"+side, []any{rule}
	}
	raw, err := json.Marshal([]any{map[string]any{"op": "add", "path": at, "value": value}})
	if err != nil {
		return ""
	}
	return kubectl(policy, "patch", "--type=json -p "+shellquote.Quoted(string(raw)))
}
