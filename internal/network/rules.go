package network

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/gantry-project/gantry/internal/network/ipam"
)

// Table returns the name of an instance's nftables table, of family inet.
func Table(id string) string { return "gantry_" + id }

// ruleset returns the whole table as a script that replaces an existing one.
func ruleset(s settings, leases []ipam.Lease) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	table := "inet " + Table(s.id)
	line("add table %s", table)
	line("delete table %s", table)
	line("table %s {", table)
	for _, f := range families(s.ranges) {
		line("\tmap ports%s { type inet_proto . inet_service : %s . inet_service; }", f.suffix, f.addrType)
		line("\tset hairpin%s { type %s . %s; }", f.suffix, f.addrType, f.addrType)
		line("\tmap hostports%s { type %s . inet_proto . inet_service : %s . inet_service; }", f.suffix, f.addrType,
			f.addrType)
	}
	line("\tchain prerouting {\n\t\ttype nat hook prerouting priority dstnat;\n\t\tfib daddr type local jump " +
		"hostports\n\t}")
	line("\tchain output {\n\t\ttype nat hook output priority -100;\n\t\tfib daddr type local jump hostports\n\t}")
	line("\tchain hostports {")
	for _, f := range families(s.ranges) {
		line("\t\tdnat %s addr . port to %s daddr . meta l4proto . th dport map @hostports%s", f.ip, f.ip, f.suffix)
		line("\t\tdnat %s addr . port to meta l4proto . th dport map @ports%s", f.ip, f.suffix)
	}
	line("\t}")
	line("\tchain postrouting {\n\t\ttype nat hook postrouting priority srcnat;")
	for _, f := range families(s.ranges) {
		near := f.pods
		for _, c := range s.cluster {
			if c.Addr().Is4() == near.Addr().Is4() {
				near = c
			}
		}
		line("\t\tct status dnat oifname %q %s saddr %s masquerade comment \"a host port asked for on the host "+
			"itself\"", s.bridge, f.ip, f.loopback)
		line("\t\tct status dnat %s saddr . %s daddr @hairpin%s masquerade comment \"a Pod's host port asked for by "+
			"the Pod itself\"", f.ip, f.ip, f.suffix)
		line("\t\t%s saddr %s %s daddr != { %s, %s } masquerade comment \"Pods to the world\"", f.ip, f.pods, f.ip,
			near, f.multicast)
	}
	line("\t}")
	// route_localnet, which host ports on 127.0.0.1 need, would otherwise let Pods reach services
	// on the host's loopback.
	line("\tchain guard {\n\t\ttype filter hook prerouting priority raw;")
	line("\t\tiifname %q ip daddr 127.0.0.0/8 drop", s.bridge)
	// Pods of one bridge talk through the host, so that translated packets are translated back. A
	// redirect would announce the direct path.
	line("\t}\n\tchain straight {\n\t\ttype filter hook output priority filter;")
	line("\t\toifname %q icmp type redirect drop", s.bridge)
	line("\t\toifname %q icmpv6 type nd-redirect drop", s.bridge)
	line("\t}\n}")
	for _, l := range leases {
		b.WriteString(openPorts(s.id, l))
	}
	return b.String()
}

type family struct {
	ip, suffix, addrType, loopback, multicast string
	pods                                      netip.Prefix
}

func families(ranges []netip.Prefix) []family {
	var out []family
	for _, r := range ranges {
		if r.Addr().Is4() {
			out = append(out, family{"ip", "4", "ipv4_addr", "127.0.0.0/8", "224.0.0.0/4", r})
		} else {
			out = append(out, family{"ip6", "6", "ipv6_addr", "::1", "ff00::/8", r})
		}
	}
	return out
}

// openPorts returns the script that adds the lease's host ports to the maps; it may be repeated.
func openPorts(id string, l ipam.Lease) string {
	var b strings.Builder
	for _, e := range elements(l) {
		if e.value != "" {
			e.value = " : " + e.value
		}
		fmt.Fprintf(&b, "add element inet %s %s { %s%s }\n", Table(id), e.set, e.key, e.value)
	}
	return b.String()
}

// closePorts returns the script that removes them; the table must exist, the elements need not.
func closePorts(id string, l ipam.Lease) string {
	var b strings.Builder
	b.WriteString(openPorts(id, l)) // deleting what is absent fails the transaction, adding what is present does not
	for _, e := range elements(l) {
		fmt.Fprintf(&b, "delete element inet %s %s { %s }\n", Table(id), e.set, e.key)
	}
	return b.String()
}

type element struct{ set, key, value string } // sets have no value

func elements(l ipam.Lease) []element {
	var out []element
	for _, ip := range l.IPs {
		if len(l.Ports) == 0 {
			break
		}
		set := "hairpin6"
		if ip.Is4() {
			set = "hairpin4"
		}
		out = append(out, element{set, fmt.Sprintf("%s . %s", ip, ip), ""})
	}
	for _, p := range l.Ports {
		for _, ip := range l.IPs {
			suffix := "6"
			if ip.Is4() {
				suffix = "4"
			}
			key, set := fmt.Sprintf("%s . %d", p.Protocol, p.HostPort), "ports"+suffix
			if !p.AnyIP() {
				key, set = p.HostIP.String()+" . "+key, "hostports"+suffix
			}
			if p.HostIP.IsValid() && p.HostIP.Is4() != ip.Is4() {
				continue
			}
			out = append(out, element{set, key, fmt.Sprintf("%s . %d", ip, p.ContainerPort)})
		}
	}
	return out
}
