package snapshot

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// zones keeps node names by zone in the order they came, so that the list of nodes can take one of
// each zone in turn.
type zones struct {
	order []string
	nodes map[string][]string
}

// zoneOf names region and zone by the well-known labels; empty when a node has neither.
func zoneOf(n *v1.Node) string {
	label := func(names ...string) string {
		for _, name := range names {
			if v := n.Labels[name]; v != "" {
				return v
			}
		}
		return ""
	}
	region := label(v1.LabelTopologyRegion, v1.LabelFailureDomainBetaRegion)
	zone := label(v1.LabelTopologyZone, v1.LabelFailureDomainBetaZone)
	if region == "" && zone == "" {
		return ""
	}
	return region + ":\x00:" + zone
}

func (z *zones) add(n *v1.Node) {
	if z.nodes == nil {
		z.nodes = map[string][]string{}
	}
	zone := zoneOf(n)
	if _, known := z.nodes[zone]; !known {
		z.order = append(z.order, zone)
	}
	z.nodes[zone] = append(z.nodes[zone], n.Name)
}

func (z *zones) remove(n *v1.Node) {
	zone := zoneOf(n)
	left := slices.DeleteFunc(z.nodes[zone], func(name string) bool { return name == n.Name })
	if len(left) > 0 {
		z.nodes[zone] = left
		return
	}
	delete(z.nodes, zone)
	z.order = slices.DeleteFunc(z.order, func(name string) bool { return name == zone })
}

func (z *zones) len() int {
	n := 0
	for _, names := range z.nodes {
		n += len(names)
	}
	return n
}

// interleaved lists the nodes zone by zone in turns, so that neighbours in the list are in
// different zones.
func (z *zones) interleaved() []string {
	out := make([]string, 0, z.len())
	for i := 0; len(out) < cap(out); i++ {
		for _, zone := range z.order {
			if names := z.nodes[zone]; i < len(names) {
				out = append(out, names[i])
			}
		}
	}
	return out
}
