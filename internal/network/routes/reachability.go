package routes

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ReachabilityAnnotation is the Node annotation with its Reachability, from which both ends of a
// path choose the same way.
const ReachabilityAnnotation = "gantry.dev/node-routes"

// Reachability is how a node reaches others, as it publishes it.
type Reachability struct {
	Mode Mode
	// OnLink are the prefixes reached without a gateway, and more specific ones that need one; the
	// longest match decides.
	OnLink []Segment
}

// Segment is a prefix of a node's routes.
type Segment struct {
	netip.Prefix
	Gateway bool // reached through a gateway
}

// String returns the annotation's value, such as "auto 10.0.0.0/24,!10.0.0.8/29".
func (w Reachability) String() string {
	var list []string
	for _, s := range w.OnLink {
		text := s.Prefix.String()
		if s.Gateway {
			text = "!" + text
		}
		list = append(list, text)
	}
	return strings.TrimSpace(string(w.Mode) + " " + strings.Join(list, ","))
}

// ParseReachability parses an annotation's value.
func ParseReachability(text string) (Reachability, error) {
	mode, list, _ := strings.Cut(text, " ")
	m, err := ParseMode(mode)
	if err != nil {
		return Reachability{}, fmt.Errorf("annotation %s: %w", ReachabilityAnnotation, err)
	}
	w := Reachability{Mode: m}
	for _, one := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		prefix, gateway := strings.CutPrefix(one, "!")
		p, err := netip.ParsePrefix(prefix)
		if err != nil {
			return Reachability{}, fmt.Errorf("annotation %s: %w", ReachabilityAnnotation, err)
		}
		w.OnLink = append(w.OnLink, Segment{p.Masked(), gateway})
	}
	return w, nil
}

// onLink reports whether the node reaches a without a gateway.
func (w Reachability) onLink(a netip.Addr) bool {
	best := Segment{Gateway: true}
	for _, s := range w.OnLink {
		if s.Contains(a) && (!best.IsValid() || s.Bits() > best.Bits()) {
			best = s
		}
	}
	return a.IsValid() && !best.Gateway
}

// segments reduces a host's routes to those that matter: without a gateway, and with one inside of
// those. The result is sorted and without duplicates.
func segments(routes []Segment) []Segment {
	var out []Segment
	for _, s := range routes {
		inside := slices.ContainsFunc(routes,
			func(o Segment) bool { return !o.Gateway && o.Bits() < s.Bits() && o.Contains(s.Addr()) })
		if !s.Gateway || inside {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Segment) int {
		if c := a.Prefix.Compare(b.Prefix); c != 0 || a.Gateway == b.Gateway {
			return c
		}
		if a.Gateway {
			return 1
		}
		return -1
	})
	// of equal prefixes the one without a gateway stays
	return slices.CompactFunc(out, func(a, b Segment) bool { return a.Prefix == b.Prefix })
}

// agreedMode returns the mode that both ends use: the one that either asks for explicitly; Direct
// if they ask for opposites.
func agreedMode(a, b Mode) Mode {
	switch {
	case a == Direct || b == Direct:
		return Direct
	case a == VXLAN || b == VXLAN:
		return VXLAN
	}
	return Auto
}

// mutuallyOnLink reports whether each of two nodes reaches the other's address, in a's family,
// without a gateway. It is symmetric.
func mutuallyOnLink(self, other Node, a netip.Addr) bool {
	for _, own := range []netip.Addr{self.Address, self.OtherAddress} {
		if own.IsValid() && own.Is4() == a.Is4() {
			return self.Reachability.onLink(a) && other.Reachability.onLink(own)
		}
	}
	return false
}

// Disagreements returns messages about nodes that cannot agree on how to reach each other's Pods.
// says maps node names to their ReachabilityAnnotation.
func Disagreements(says map[string]string) []string {
	byMode := map[Mode][]string{}
	var out, silent []string
	for node, text := range says {
		if text == "" {
			silent = append(silent, node)
			continue
		}
		w, err := ParseReachability(text)
		if err != nil {
			out = append(out, fmt.Sprintf("node %s: %v", node, err))
			continue
		}
		byMode[w.Mode] = append(byMode[w.Mode], node)
	}
	slices.Sort(out)
	if direct, tunnel := byMode[Direct], byMode[VXLAN]; len(direct) > 0 && len(tunnel) > 0 {
		out = append(out,
			fmt.Sprintf("--node-routes is direct on %s and vxlan on %s: they use routes, and where they are on "+
				"different segments their Pods do not reach each other",
				firstNodes(direct), firstNodes(tunnel)))
	}
	if len(silent) > 0 && len(silent) < len(says) {
		out = append(out,
			fmt.Sprintf("%s do not say how they reach other nodes while others do: each end chooses alone there, and "+
				"may choose what the other does not expect", firstNodes(silent)))
	}
	return out
}

func firstNodes(nodes []string) string {
	slices.Sort(nodes)
	if len(nodes) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(nodes[:3], ", "), len(nodes)-3)
	}
	return strings.Join(nodes, ", ")
}
