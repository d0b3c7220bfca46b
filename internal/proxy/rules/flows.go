package rules

import (
	"net/netip"
	"reflect"
	"slices"
)

// Flows says to whom UDP conversations may lead, by the address asked for.
type Flows struct {
	at   map[netip.AddrPort]map[netip.AddrPort]bool
	node map[uint16]map[netip.AddrPort]bool // by node port
}

// NewFlows looks at the UDP ports among those given.
func NewFlows(ports []Port) *Flows {
	f := &Flows{at: map[netip.AddrPort]map[netip.AddrPort]bool{}, node: map[uint16]map[netip.AddrPort]bool{}}
	for _, there := range []bool{false, true} { // an address or node port may have gone from one Service to another: what has endpoints wins
		for _, p := range ports {
			if ends := p.endpoints(); p.Protocol == "udp" && there == (len(ends) > 0) {
				f.add(p, ends)
			}
		}
	}
	return f
}

func (f *Flows) add(p Port, ends []Endpoint) {
	all := map[netip.AddrPort]bool{}
	for _, e := range ends {
		all[e.AddrPort] = true
	}
	for _, ip := range append(append([]netip.Addr{p.At.Cluster}, p.At.External...), p.At.LoadBalancers...) {
		f.at[netip.AddrPortFrom(ip, p.Number)] = all
	}
	if p.NodePort != 0 {
		f.node[p.NodePort] = all
	}
}

// Empty tells that there is nothing to look for.
func (f *Flows) Empty() bool { return len(f.at)+len(f.node) == 0 }

// Stale tells whether a conversation that was begun with asked and is answered by answers must be forgotten.
func (f *Flows) Stale(asked, answers netip.AddrPort) bool {
	if all, ok := f.at[asked]; ok {
		return !all[answers]
	}
	// A node port that was led on: at a node's own address, anything that listens there itself is left alone.
	if all, ok := f.node[asked.Port()]; ok && answers != asked {
		return !all[answers]
	}
	return false
}

// Outdated are the UDP ports of a Service that conversations may be wrong for after a change: ports that lost an endpoint or an address, that have
// an endpoint for the first time, and those that went, without endpoints and before the others.
func Outdated(was, now []Port) []Port {
	var out []Port
	for _, w := range was {
		if i := slices.IndexFunc(now, w.same); w.Protocol == "udp" && (i < 0 || !reflect.DeepEqual(w.At, now[i].At) || w.NodePort != now[i].NodePort) {
			w.Cluster, w.Local = nil, nil
			out = append(out, w)
		}
	}
	for _, n := range now {
		if n.Protocol != "udp" {
			continue
		}
		i := slices.IndexFunc(was, n.same)
		if i < 0 || !reflect.DeepEqual(was[i].At, n.At) || was[i].NodePort != n.NodePort || lost(was[i].endpoints(), n.endpoints()) {
			out = append(out, n)
		}
	}
	return out
}

func (p Port) same(o Port) bool { return p.Protocol == o.Protocol && p.Number == o.Number }

func (p Port) endpoints() []Endpoint { return slices.Concat(p.Cluster, p.Local) }

// lost tells whether an endpoint went, or the first came.
func lost(was, now []Endpoint) bool {
	return len(was) == 0 && len(now) > 0 || slices.ContainsFunc(was, func(w Endpoint) bool {
		return !slices.ContainsFunc(now, func(n Endpoint) bool { return n.AddrPort == w.AddrPort })
	})
}
