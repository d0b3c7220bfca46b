package rules

import (
	"fmt"
	"slices"
	"strings"
)

// Names of the sets and maps that all Services share, and of the chains that use them.
const (
	serviceIPs          = "service-ips"
	serviceNodePorts    = "service-nodeports"
	noEndpointIPs       = "no-endpoint-services"
	noEndpointNodePorts = "no-endpoint-nodeports"
	firewallIPs         = "firewall-ips"
	clusterIPs          = "cluster-ips"
	hairpinIPs          = "hairpin-ips"

	rejectChain = "reject-chain"
	markChain   = "mark-for-masquerade"
)

// SetDef defines a set, or a map if IsMap.
type SetDef struct {
	Name, Type string
	IsMap      bool
}

// BaseChain attaches a chain to a netfilter hook.
type BaseChain struct{ Chain, Type, Hook, Priority string }

// NamedChain is a chain with its rules.
type NamedChain struct {
	Name  string
	Rules []string
}

// TableFrame is the part of a table that does not depend on Services.
type TableFrame struct {
	Sets       []SetDef
	BaseChains []BaseChain
	Chains     []NamedChain // each refers only to earlier ones
}

// NewTableFrame returns the frame for s.Family.
func NewTableFrame(s Settings) TableFrame {
	key := s.Family.addrType() + " . inet_proto . inet_service"
	mark := uint32(1) << s.MasqueradeBit
	ip := string(s.Family)
	strangers := confineRules(s)
	lookup := func(m string) string { return ip + " daddr . meta l4proto . th dport vmap @" + m }
	slots, choices := sharedChains(s, key)
	return TableFrame{
		Sets: append(slots, []SetDef{
			{serviceIPs, key + " : verdict", true}, {serviceNodePorts, "inet_proto . inet_service : verdict", true},
			{noEndpointIPs, key + " : verdict", true}, {noEndpointNodePorts, "inet_proto . inet_service : verdict",
				true},
			{firewallIPs, key + " : verdict", true},
			{clusterIPs, s.Family.addrType(), false}, {hairpinIPs, s.Family.addrType() + " . " + s.Family.addrType(),
				false},
		}...),
		// Filters on the requested address come before DNAT (-100), those on what was not
		// translated after it.
		BaseChains: []BaseChain{
			{"nat-prerouting", "nat", "prerouting", "-100"}, {"nat-output", "nat", "output", "-100"},
			{"nat-postrouting", "nat", "postrouting", "100"},
			{"filter-prerouting", "filter", "prerouting", "-110"}, {"filter-output", "filter", "output", "-110"},
			{"filter-input", "filter", "input", "-110"}, {"filter-forward", "filter", "forward", "-110"},
			{"filter-output-after", "filter", "output", "-90"},
		},
		Chains: slices.Concat([]NamedChain{
			{markChain, []string{fmt.Sprintf("meta mark set meta mark or 0x%x", mark)}},
			{rejectChain, []string{"reject"}},
		}, choices, []NamedChain{
			{"services", append([]string{lookup(serviceIPs)}, nodePorts(s, serviceNodePorts)...)},
			{"leftovers", append(append([]string{lookup(noEndpointIPs)}, nodePorts(s, noEndpointNodePorts)...),
				ip+" daddr @"+clusterIPs+" goto "+rejectChain)},
			{"nat-prerouting", append(strangers, "jump services")},
			{"nat-output", []string{"jump services"}},
			{"nat-postrouting", []string{
				fmt.Sprintf("ct status dnat %s saddr . %s daddr @%s masquerade fully-random", ip, ip, hairpinIPs),
				fmt.Sprintf("meta mark & 0x%x == 0 return", mark),
				fmt.Sprintf("meta mark set meta mark xor 0x%x", mark),
				"masquerade fully-random",
			}},
			{"filter-prerouting", []string{"ct state new " + lookup(firewallIPs)}},
			{"filter-output", []string{"ct state new " + lookup(firewallIPs)}},
			{"filter-input", append(strangers, "ct state new jump leftovers")},
			{"filter-forward", append(strangers, "ct state new jump leftovers")},
			{"filter-output-after", []string{"ct state new jump leftovers"}},
		}),
	}
}

// sharedChains returns the maps of Services' first, second, … endpoint, and for each number of
// endpoints the chain that chooses among them.
func sharedChains(s Settings, key string) (slots []SetDef, choices []NamedChain) {
	w := ruleWriter{Settings: s}
	var mark []string
	if out := w.matchOutside(); s.MasqueradeAll {
		mark = []string{"jump " + markChain}
	} else if out != "" {
		mark = []string{out + " jump " + markChain}
	}
	var steps []string
	for n := 1; n <= maxSequentialEndpoints; n++ {
		slots = append(slots, SetDef{slotMap(n), key + " : " + s.Family.addrType() + " . inet_service", true})
		step := fmt.Sprintf("dnat %s addr . port to %s daddr . meta l4proto . th dport map @%s", s.Family, s.Family,
			slotMap(n))
		if n > 1 {
			step = fmt.Sprintf("numgen random mod %d 0 ", n) + step
		}
		steps = append([]string{step}, steps...)
		choices = append(choices, NamedChain{choiceChain(n), slices.Concat(mark, steps)})
	}
	return slots, choices
}

// slotMap returns the name of the map of Services' n-th endpoint.
func slotMap(n int) string { return fmt.Sprintf("endpoints-%d", n) }

// choiceChain returns the name of the chain that chooses one of n endpoints.
func choiceChain(n int) string { return fmt.Sprintf("choose-%d", n) }

// nodePorts returns the rules that look up node ports. They stay valid when the node's addresses
// change.
func nodePorts(s Settings, in string) []string {
	only := ""
	if set := prefixes(s.NodePorts, s.Family); set != "" {
		only = fmt.Sprintf("%s daddr %s ", s.Family, set)
	} else if len(s.NodePorts) > 0 {
		return nil // only ranges of the other family
	}
	return []string{"fib daddr type local " + only + "meta l4proto . th dport vmap @" + in}
}

// confineRules let only the named interfaces use cluster IPs; none without interfaces.
func confineRules(s Settings) []string {
	if len(s.ConfineInterfaces) == 0 {
		return nil
	}
	quoted := make([]string, len(s.ConfineInterfaces))
	for i, name := range s.ConfineInterfaces {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return []string{fmt.Sprintf("iifname != { %s } %s daddr @%s return", strings.Join(quoted, ", "), s.Family,
		clusterIPs)}
}
