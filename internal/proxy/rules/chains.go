package rules

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// mostSteps is up to how many endpoints a chain tries one after the other; beyond, one lookup in a map of its own is cheaper. Small
// Services are most of them, and 10,000 maps would cost the kernel seconds, as it searches all their names for each new one.
const mostSteps = 8

// State is what the port needs in the table.
func (p Port) State(s Settings) State {
	w := &writer{Port: p, Settings: s, out: NewState()}
	w.out.Elements[Element{clusterIPs, p.At.Cluster.String()}] = ""
	w.internal()
	w.external()
	w.firewall()
	w.hairpins()
	return w.out
}

// writer makes one port's rules.
type writer struct {
	Port
	Settings
	out State
}

// chain adds a chain and returns its name, which its rules determine.
func (w *writer) chain(kind string, rules ...string) string {
	name := w.name(kind, rules...)
	w.out.Chains[name] = rules
	return name
}

func (w *writer) name(kind string, content ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(content, "\n")))
	port := w.Name
	if port == "" {
		port = strconv.Itoa(int(w.Number))
	}
	return fmt.Sprintf("%s-%s-%s/%s/%s", kind, base32.HexEncoding.EncodeToString(sum[:])[:10], w.Service, w.Protocol, port)
}

func (w *writer) key(ip netip.Addr) string {
	return fmt.Sprintf("%s . %s . %d", ip, w.Protocol, w.Number)
}

// lead puts an element into the map of services, or into the map of those without endpoint.
func (w *writer) lead(services, none Element, chain string) {
	switch {
	case chain != "":
		w.out.Elements[services] = "goto " + chain
	case w.Any:
		// There are endpoints, only not here: whoever asked may be sent elsewhere by a load balancer, so no answer rather than a wrong one.
		w.out.Elements[none] = "drop"
	default:
		w.out.Elements[none] = "goto " + rejectChain
	}
}

// internal is the way in by the cluster IP.
func (w *writer) internal() {
	endpoints, kind := w.Cluster, "service"
	if w.InternalLocal {
		endpoints, kind = w.Port.Local, "local"
	}
	key, chain := w.key(w.At.Cluster), ""
	switch n := len(endpoints); {
	case n > 0 && w.shares(n):
		chain = choice(n)
		for i, e := range endpoints {
			w.out.Elements[Element{slot(i + 1), key}] = fmt.Sprintf("%s . %d", e.Addr(), e.Port())
		}
	case n > 0:
		chain = w.dispatch(kind, endpoints)
	}
	w.lead(Element{serviceIPs, key}, Element{noEndpointIPs, key}, chain)
}

// shares tells that the frame's chains do for a port with n endpoints. The kernel walks all chains that packets may reach whenever a rule or a
// way to a chain is new: a chain for each of 10,000 Services costs every change 30 ms, while elements that hold addresses cost nothing.
func (w *writer) shares(n int) bool {
	return n <= mostSteps && w.Affinity == 0 && w.NodePort == 0 && len(w.At.External)+len(w.At.LoadBalancers) == 0
}

// external is the way in by node ports, external addresses and load balancers.
func (w *writer) external() {
	ips := append(append([]netip.Addr(nil), w.At.External...), w.At.LoadBalancers...)
	if len(ips) == 0 && w.NodePort == 0 {
		return
	}
	chain, none := w.externalChain()
	for _, ip := range ips {
		key := w.key(ip)
		if chain != "" {
			w.out.Elements[Element{serviceIPs, key}] = "goto " + chain
		}
		if none {
			w.lead(Element{}, Element{noEndpointIPs, key}, "")
		}
	}
	if w.NodePort == 0 {
		return
	}
	key := fmt.Sprintf("%s . %d", w.Protocol, w.NodePort)
	if chain != "" {
		w.out.Elements[Element{serviceNodePorts, key}] = "goto " + chain
	}
	if none {
		w.lead(Element{}, Element{noEndpointNodePorts, key}, "")
	}
}

// externalChain is the chain for traffic from outside, empty when there is nowhere to send it; none tells that what the chain leaves over is
// to be refused.
func (w *writer) externalChain() (chain string, none bool) {
	if !w.ExternalLocal {
		if len(w.Cluster) == 0 {
			return "", true
		}
		return w.chain("external", "jump "+markChain, "goto "+w.dispatch("service", w.Cluster)), false
	}
	var rules []string
	if len(w.Cluster) > 0 {
		all := w.dispatch("service", w.Cluster)
		// Pods of this cluster, and this node itself, need not go by an outside load balancer: they may use every endpoint.
		if inside := w.inside(); inside != "" {
			rules = append(rules, inside+" goto "+all)
		}
		rules = append(rules, "fib saddr type local jump "+markChain, "fib saddr type local goto "+all)
	}
	if len(w.Port.Local) > 0 {
		rules = append(rules, "goto "+w.dispatch("local", w.Port.Local))
	}
	if len(rules) == 0 {
		return "", true
	}
	return w.chain("external", rules...), len(w.Port.Local) == 0
}

// inside matches Pods' traffic, outside everybody else's; empty when it cannot be told.
func (w *writer) inside() string {
	if i := w.Settings.Local.Interface; i != "" {
		return fmt.Sprintf("iifname %q", i)
	}
	if r := w.ranges(); r != "" {
		return fmt.Sprintf("%s saddr %s", w.Family, r)
	}
	return ""
}

func (w *writer) outside() string {
	if i := w.Settings.Local.Interface; i != "" {
		return fmt.Sprintf("iifname != %q", i)
	}
	if r := w.ranges(); r != "" {
		return fmt.Sprintf("%s saddr != %s", w.Family, r)
	}
	return ""
}

func (w *writer) ranges() string { return prefixes(w.Settings.Local.Ranges, w.Family) }

// prefixes is a set in braces of those of the family; empty when there is none.
func prefixes(all []netip.Prefix, f Family) string {
	var own []netip.Prefix
	for _, r := range all {
		if f.Has(r.Addr()) {
			own = append(own, r.Masked())
		}
	}
	if len(own) == 0 {
		return ""
	}
	var texts []string
	for _, r := range apart(own) {
		texts = append(texts, r.String())
	}
	return "{ " + strings.Join(texts, ", ") + " }"
}

// dispatch is the chain that chooses one of the endpoints.
func (w *writer) dispatch(kind string, endpoints []Endpoint) string {
	var rules []string
	asked := fmt.Sprintf("%s daddr %s ", w.Family, w.At.Cluster)
	switch out := w.outside(); {
	case w.MasqueradeAll:
		rules = append(rules, asked+"jump "+markChain)
	case out != "":
		rules = append(rules, asked+out+" jump "+markChain)
	}
	if w.Affinity > 0 {
		return w.chain(kind, append(rules, w.sticky(endpoints)...)...)
	}
	n := len(endpoints)
	if n > mostSteps {
		return w.chain(kind, append(rules, fmt.Sprintf("meta l4proto %s dnat %s addr . port to numgen random mod %d map { %s }", w.Protocol, w.Family, n, w.numbered(endpoints)))...)
	}
	for i, e := range endpoints {
		chance := ""
		if left := n - i; left > 1 {
			chance = fmt.Sprintf("numgen random mod %d 0 ", left)
		}
		rules = append(rules, "meta l4proto "+w.Protocol+" "+chance+"dnat to "+e.AddrPort.String())
	}
	return w.chain(kind, rules...)
}

func (w *writer) numbered(endpoints []Endpoint) string {
	texts := make([]string, len(endpoints))
	for i, e := range endpoints {
		texts[i] = fmt.Sprintf("%d : %s . %d", i, e.Addr(), e.Port())
	}
	return strings.Join(texts, ", ")
}

// sticky leads a client to where it was before: each endpoint has a set of its clients, which the kernel fills and forgets.
func (w *writer) sticky(endpoints []Endpoint) []string {
	var known, chosen []string
	for i, e := range endpoints {
		set := w.name("affinity", string(w.Family), e.AddrPort.String(), strconv.Itoa(int(w.Affinity)))
		w.out.Affinity[set] = w.Affinity
		chain := w.chain("endpoint", fmt.Sprintf("update @%s { %s saddr }", set, w.Family), "meta l4proto "+w.Protocol+" dnat to "+e.AddrPort.String())
		known = append(known, fmt.Sprintf("%s saddr @%s goto %s", w.Family, set, chain))
		chosen = append(chosen, fmt.Sprintf("%d : goto %s", i, chain))
	}
	return append(known, fmt.Sprintf("numgen random mod %d vmap { %s }", len(endpoints), strings.Join(chosen, " , "))) // commas apart: knftables' fake takes words for names
}

// firewall lets only the named ranges to the load balancer's addresses.
func (w *writer) firewall() {
	if w.At.Sources == nil || len(w.At.LoadBalancers) == 0 {
		return
	}
	rule := "drop"
	if set := prefixes(w.At.Sources, w.Family); set != "" {
		rule = fmt.Sprintf("%s saddr != %s drop", w.Family, set)
	}
	chain := w.chain("firewall", rule)
	for _, ip := range w.At.LoadBalancers {
		w.out.Elements[Element{firewallIPs, w.key(ip)}] = "goto " + chain
	}
}

// hairpins names the endpoints of this node: one that a Service leads back to itself must not see its own address as the client's.
func (w *writer) hairpins() {
	for _, e := range append(append([]Endpoint(nil), w.Cluster...), w.Port.Local...) {
		if e.OnNode {
			w.out.Elements[Element{hairpinIPs, fmt.Sprintf("%s . %s", e.Addr(), e.Addr())}] = ""
		}
	}
}
