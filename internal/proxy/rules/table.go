package rules

import (
	"fmt"
	"slices"
	"strings"
)

// Names of the sets and maps that all Services share, and of chains that their rules go to.
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

// Def is a set or map: verdict maps have IsMap.
type Def struct {
	Name, Type string
	IsMap      bool
}

// Base hooks a chain into the packets' way.
type Base struct{ Chain, Type, Hook, Priority string }

// Named is a chain with its rules.
type Named struct {
	Name  string
	Rules []string
}

// Frame is what a table has besides Services' own.
type Frame struct {
	Defs   []Def
	Bases  []Base
	Chains []Named // in an order in which each refers only to those before it
}

// Table is the frame of one family.
func Table(s Settings) Frame {
	key := s.Family.addrType() + " . inet_proto . inet_service"
	mark := uint32(1) << s.MasqueradeBit
	ip := string(s.Family)
	strangers := confined(s)
	lookup := func(m string) string { return ip + " daddr . meta l4proto . th dport vmap @" + m }
	slots, choices := shared(s, key)
	return Frame{
		Defs: append(slots, []Def{
			{serviceIPs, key + " : verdict", true}, {serviceNodePorts, "inet_proto . inet_service : verdict", true},
			{noEndpointIPs, key + " : verdict", true}, {noEndpointNodePorts, "inet_proto . inet_service : verdict", true},
			{firewallIPs, key + " : verdict", true},
			{clusterIPs, s.Family.addrType(), false}, {hairpinIPs, s.Family.addrType() + " . " + s.Family.addrType(), false},
		}...),
		// Filters come before the translation (-100) where the asked address counts, after it where what is left over counts.
		Bases: []Base{
			{"nat-prerouting", "nat", "prerouting", "-100"}, {"nat-output", "nat", "output", "-100"}, {"nat-postrouting", "nat", "postrouting", "100"},
			{"filter-prerouting", "filter", "prerouting", "-110"}, {"filter-output", "filter", "output", "-110"},
			{"filter-input", "filter", "input", "-110"}, {"filter-forward", "filter", "forward", "-110"}, {"filter-output-after", "filter", "output", "-90"},
		},
		Chains: slices.Concat([]Named{
			{markChain, []string{fmt.Sprintf("meta mark set meta mark or 0x%x", mark)}},
			{rejectChain, []string{"reject"}},
		}, choices, []Named{
			{"services", append([]string{lookup(serviceIPs)}, nodePorts(s, serviceNodePorts)...)},
			{"leftovers", append(append([]string{lookup(noEndpointIPs)}, nodePorts(s, noEndpointNodePorts)...), ip+" daddr @"+clusterIPs+" goto "+rejectChain)},
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

// shared are the maps that hold Services' first, second, … endpoint, and for each number of endpoints the chain that takes one of them.
func shared(s Settings, key string) (slots []Def, choices []Named) {
	w := writer{Settings: s}
	var mark []string
	if out := w.outside(); s.MasqueradeAll {
		mark = []string{"jump " + markChain}
	} else if out != "" {
		mark = []string{out + " jump " + markChain}
	}
	var steps []string
	for n := 1; n <= mostSteps; n++ {
		slots = append(slots, Def{slot(n), key + " : " + s.Family.addrType() + " . inet_service", true})
		step := fmt.Sprintf("dnat %s addr . port to %s daddr . meta l4proto . th dport map @%s", s.Family, s.Family, slot(n))
		if n > 1 {
			step = fmt.Sprintf("numgen random mod %d 0 ", n) + step
		}
		steps = append([]string{step}, steps...)
		choices = append(choices, Named{choice(n), slices.Concat(mark, steps)})
	}
	return slots, choices
}

// slot is the map of Services' n-th endpoint.
func slot(n int) string { return fmt.Sprintf("endpoints-%d", n) }

// choice is the chain that takes one of n endpoints.
func choice(n int) string { return fmt.Sprintf("choose-%d", n) }

// nodePorts looks a node port up. The rule stays right when the node gets or loses an address.
func nodePorts(s Settings, in string) []string {
	only := ""
	if set := prefixes(s.NodePorts, s.Family); set != "" {
		only = fmt.Sprintf("%s daddr %s ", s.Family, set)
	} else if len(s.NodePorts) > 0 {
		return nil // ranges of the other family alone
	}
	return []string{"fib daddr type local " + only + "meta l4proto . th dport vmap @" + in}
}

func confined(s Settings) []string {
	if len(s.Confine) == 0 {
		return nil
	}
	quoted := make([]string, len(s.Confine))
	for i, name := range s.Confine {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return []string{fmt.Sprintf("iifname != { %s } %s daddr @%s return", strings.Join(quoted, ", "), s.Family, clusterIPs)}
}
