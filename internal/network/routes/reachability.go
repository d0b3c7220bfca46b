package routes

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ReachabilityAnnotation of a Node: how it reaches other nodes, and which addresses it has on its
// segments, so that both ends of a way choose the same.
const ReachabilityAnnotation = "gantry.dev/node-routes"

// Reachability is what a node says of how it reaches others.
type Reachability struct {
	Mode Mode
	// OnLink are the prefixes that it reaches without a gateway, and those inside of them that need
	// one; the longest that fits decides.
	OnLink []Segment
}

// Segment is a prefix of a node's routes.
type Segment struct {
	netip.Prefix
	Gateway bool // it needs one
}

// String is the annotation's value, like "auto 10.0.0.0/24,!10.0.0.8/29".
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

// ParseReachability reads an annotation's value.
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

// onLink tells whether a node that says w reaches an address without a gateway.
func (w Reachability) onLink(a netip.Addr) bool {
	best := Segment{Gateway: true}
	for _, s := range w.OnLink {
		if s.Contains(a) && (!best.IsValid() || s.Bits() > best.Bits()) {
			best = s
		}
	}
	return a.IsValid() && !best.Gateway
}

// segments keeps of a host's routes what decides: those without a gateway, and those with one
// inside of them. Order and repetition do not count.
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
	// of two the one without a gateway
	return slices.CompactFunc(out, func(a, b Segment) bool { return a.Prefix == b.Prefix })
}

// agreedMode is the mode that both ends of a way use: what one of them asks for by name, and direct
// where they ask for the opposite.
func agreedMode(a, b Mode) Mode {
	switch {
	case a == Direct || b == Direct:
		return Direct
	case a == VXLAN || b == VXLAN:
		return VXLAN
	}
	return Auto
}

// mutuallyOnLink tells whether two nodes reach each other's address of one family without a
// gateway, by what both say: the same from either side.
func mutuallyOnLink(self, other Node, a netip.Addr) bool {
	for _, own := range []netip.Addr{self.Address, self.OtherAddress} {
		if own.IsValid() && own.Is4() == a.Is4() {
			return self.Reachability.onLink(a) && other.Reachability.onLink(own)
		}
	}
	return false
}

// Disagreements tells, by what Nodes say, which of them cannot agree on how to reach each other's
// Pods, as text for a person.
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
