package rules

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// maxSequentialEndpoints is up to how many endpoints a chain has one rule each; beyond that one
// lookup in an anonymous map is cheaper. Most Services are small, and 10,000 maps would cost the
// kernel seconds, because it searches all names for each new one.
const maxSequentialEndpoints = 8

// State returns the chains, sets and elements that the port needs in the table.
func (p ServicePort) State(s Settings) State {
	w := &ruleWriter{ServicePort: p, Settings: s, out: NewState()}
	w.out.Elements[Element{clusterIPs, p.Addresses.Cluster.String()}] = ""
	w.addInternal()
	w.addExternal()
	w.addSourceRanges()
	w.addHairpins()
	return w.out
}

// ruleWriter writes the rules of one port.
type ruleWriter struct {
	ServicePort
	Settings
	out State
}

// chain adds a chain and returns its name, which includes a hash of its rules.
func (w *ruleWriter) chain(kind string, rules ...string) string {
	name := w.name(kind, rules...)
	w.out.Chains[name] = rules
	return name
}

func (w *ruleWriter) name(kind string, content ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(content, "\n")))
	port := w.Name
	if port == "" {
		port = strconv.Itoa(int(w.Number))
	}
	return fmt.Sprintf("%s-%s-%s/%s/%s", kind, base32.HexEncoding.EncodeToString(sum[:])[:10], w.Service, w.Protocol,
		port)
}

func (w *ruleWriter) key(ip netip.Addr) string {
	return fmt.Sprintf("%s . %s . %d", ip, w.Protocol, w.Number)
}

// addVerdict adds an element to the services map or, if chain is empty, to the map of services
// without endpoints.
func (w *ruleWriter) addVerdict(services, none Element, chain string) {
	switch {
	case chain != "":
		w.out.Elements[services] = "goto " + chain
	case w.AnyEndpoint:
		// There are endpoints, but not on this node: a load balancer may use another node, so drop
		// rather than reject.
		w.out.Elements[none] = "drop"
	default:
		w.out.Elements[none] = "goto " + rejectChain
	}
}

// addInternal adds the cluster IP.
func (w *ruleWriter) addInternal() {
	endpoints, kind := w.ClusterEndpoints, "service"
	if w.InternalLocal {
		endpoints, kind = w.ServicePort.LocalEndpoints, "local"
	}
	key, chain := w.key(w.Addresses.Cluster), ""
	switch n := len(endpoints); {
	case n > 0 && w.usesSharedChains(n):
		chain = choiceChain(n)
		for i, e := range endpoints {
			w.out.Elements[Element{slotMap(i + 1), key}] = fmt.Sprintf("%s . %d", e.Addr(), e.Port())
		}
	case n > 0:
		chain = w.endpointChain(kind, endpoints)
	}
	w.addVerdict(Element{serviceIPs, key}, Element{noEndpointIPs, key}, chain)
}

// usesSharedChains reports whether the frame's shared chains serve a port with n endpoints. The
// kernel validates all reachable chains whenever a rule or a jump is added: a chain for each of
// 10,000 Services costs every change 30 ms, whereas elements that hold addresses cost nothing.
func (w *ruleWriter) usesSharedChains(n int) bool {
	return n <= maxSequentialEndpoints && w.Affinity == 0 && w.NodePort == 0 &&
		len(w.Addresses.External)+len(w.Addresses.LoadBalancers) == 0
}

// addExternal adds node ports, external IPs and load balancer IPs.
func (w *ruleWriter) addExternal() {
	ips := append(append([]netip.Addr(nil), w.Addresses.External...), w.Addresses.LoadBalancers...)
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
			w.addVerdict(Element{}, Element{noEndpointIPs, key}, "")
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
		w.addVerdict(Element{}, Element{noEndpointNodePorts, key}, "")
	}
}

// externalChain returns the chain for external traffic; "" if there is no endpoint for it. none:
// what the chain does not match must be refused.
func (w *ruleWriter) externalChain() (chain string, none bool) {
	if !w.ExternalLocal {
		if len(w.ClusterEndpoints) == 0 {
			return "", true
		}
		return w.chain("external", "jump "+markChain, "goto "+w.endpointChain("service", w.ClusterEndpoints)), false
	}
	var rules []string
	if len(w.ClusterEndpoints) > 0 {
		all := w.endpointChain("service", w.ClusterEndpoints)
		// Pods of the cluster and this node itself need no external load balancer: they may use
		// every endpoint.
		if inside := w.matchPods(); inside != "" {
			rules = append(rules, inside+" goto "+all)
		}
		rules = append(rules, "fib saddr type local jump "+markChain, "fib saddr type local goto "+all)
	}
	if len(w.ServicePort.LocalEndpoints) > 0 {
		rules = append(rules, "goto "+w.endpointChain("local", w.ServicePort.LocalEndpoints))
	}
	if len(rules) == 0 {
		return "", true
	}
	return w.chain("external", rules...), len(w.ServicePort.LocalEndpoints) == 0
}

// matchPods returns the rule text that matches Pods' traffic, "" if local traffic cannot be
// detected.
func (w *ruleWriter) matchPods() string {
	if i := w.Settings.LocalDetector.Interface; i != "" {
		return fmt.Sprintf("iifname %q", i)
	}
	if r := w.ranges(); r != "" {
		return fmt.Sprintf("%s saddr %s", w.Family, r)
	}
	return ""
}

func (w *ruleWriter) matchOutside() string {
	if i := w.Settings.LocalDetector.Interface; i != "" {
		return fmt.Sprintf("iifname != %q", i)
	}
	if r := w.ranges(); r != "" {
		return fmt.Sprintf("%s saddr != %s", w.Family, r)
	}
	return ""
}

func (w *ruleWriter) ranges() string { return prefixes(w.Settings.LocalDetector.Ranges, w.Family) }

// prefixes returns the prefixes of family f as an anonymous set; "" if there is none.
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
	for _, r := range mergeRanges(own) {
		texts = append(texts, r.String())
	}
	return "{ " + strings.Join(texts, ", ") + " }"
}

// endpointChain adds the chain that chooses one of the endpoints and returns its name.
func (w *ruleWriter) endpointChain(kind string, endpoints []Endpoint) string {
	var rules []string
	requested := fmt.Sprintf("%s daddr %s ", w.Family, w.Addresses.Cluster)
	switch out := w.matchOutside(); {
	case w.MasqueradeAll:
		rules = append(rules, requested+"jump "+markChain)
	case out != "":
		rules = append(rules, requested+out+" jump "+markChain)
	}
	if w.Affinity > 0 {
		return w.chain(kind, append(rules, w.affinityChains(endpoints)...)...)
	}
	n := len(endpoints)
	if n > maxSequentialEndpoints {
		return w.chain(kind,
			append(rules, fmt.Sprintf("meta l4proto %s dnat %s addr . port to numgen random mod %d map { %s }",
				w.Protocol, w.Family, n, w.numberedMap(endpoints)))...)
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

func (w *ruleWriter) numberedMap(endpoints []Endpoint) string {
	texts := make([]string, len(endpoints))
	for i, e := range endpoints {
		texts[i] = fmt.Sprintf("%d : %s . %d", i, e.Addr(), e.Port())
	}
	return strings.Join(texts, ", ")
}

// affinityChains returns rules that send a client to its earlier endpoint. Each endpoint has a
// dynamic set of its clients, which the kernel fills and expires.
func (w *ruleWriter) affinityChains(endpoints []Endpoint) []string {
	var known, chosen []string
	for i, e := range endpoints {
		set := w.name("affinity", string(w.Family), e.AddrPort.String(), strconv.Itoa(int(w.Affinity)))
		w.out.Affinity[set] = w.Affinity
		chain := w.chain("endpoint", fmt.Sprintf("update @%s { %s saddr }", set, w.Family),
			"meta l4proto "+w.Protocol+" dnat to "+e.AddrPort.String())
		known = append(known, fmt.Sprintf("%s saddr @%s goto %s", w.Family, set, chain))
		chosen = append(chosen, fmt.Sprintf("%d : goto %s", i, chain))
	}
	// spaces around commas: knftables' fake reads tokens as names
	return append(known, fmt.Sprintf("numgen random mod %d vmap { %s }", len(endpoints), strings.Join(chosen, " , ")))
}

// addSourceRanges drops traffic to the load balancer's addresses from outside
// loadBalancerSourceRanges.
func (w *ruleWriter) addSourceRanges() {
	if w.Addresses.Sources == nil || len(w.Addresses.LoadBalancers) == 0 {
		return
	}
	rule := "drop"
	if set := prefixes(w.Addresses.Sources, w.Family); set != "" {
		rule = fmt.Sprintf("%s saddr != %s drop", w.Family, set)
	}
	chain := w.chain("firewall", rule)
	for _, ip := range w.Addresses.LoadBalancers {
		w.out.Elements[Element{firewallIPs, w.key(ip)}] = "goto " + chain
	}
}

// addHairpins adds this node's endpoints to the hairpin map: an endpoint that reaches itself
// through a Service is masqueraded, so that it does not see its own address as the client's.
func (w *ruleWriter) addHairpins() {
	for _, e := range append(append([]Endpoint(nil), w.ClusterEndpoints...), w.ServicePort.LocalEndpoints...) {
		if e.IsLocal {
			w.out.Elements[Element{hairpinIPs, fmt.Sprintf("%s . %s", e.Addr(), e.Addr())}] = ""
		}
	}
}
