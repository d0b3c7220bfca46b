package topologymanager

import (
	"maps"
	"slices"
)

// NUMAInfo is the machine's NUMA nodes.
type NUMAInfo struct {
	Nodes []int
	// Distances are those from a node to the nodes 0, 1, 2, …; not asked for without
	// prefer-closest-numa-nodes.
	Distances map[int][]uint64
}

// Mask is the set of all nodes.
func (n NUMAInfo) Mask() Mask { return MaskOf(n.Nodes...) }

// averageDistance is the mean distance between the nodes of a set, each to itself included.
func (n NUMAInfo) averageDistance(m Mask) float64 {
	var sum, count float64
	for _, from := range m.Bits() {
		for _, to := range m.Bits() {
			if d := n.Distances[from]; to < len(d) {
				sum += float64(d[to])
			}
			count++
		}
	}
	if count == 0 {
		return 0
	}
	return sum / count
}

// Merge finds the affinity that serves all resources. Each way of taking one hint of every resource
// is a candidate: the nodes that its hints share, preferred if all are preferred and name the same
// nodes. Preferred candidates win, among them the narrowest, or with closest the nearest of the
// narrowest. Among the others it wins whose size comes closest from below to want, which is the
// size of the smallest hint of the resource that needs most. Without candidates all nodes are the
// answer, not preferred.
func Merge(hints [][]Hint, numa NUMAInfo, closest bool) Hint {
	all := numa.Mask()
	o := order{want: neededNodes(hints), numa: numa, closest: closest}
	var best *Hint
	for _, c := range candidates(hints, all) {
		if c.NUMANodeAffinity != 0 && (best == nil || o.better(c, *best)) {
			best = &c
		}
	}
	if best == nil {
		return Hint{NUMANodeAffinity: all}
	}
	return *best
}

// partial is what hints of the first resources agree on.
type partial struct {
	shared  Mask // the nodes in all of them
	same    Mask // the nodes that each names, while they are the same; empty: none has named any
	uniform bool // all are preferred and name the same nodes
}

// candidates are the different outcomes of taking one hint of each resource. There are far fewer of
// them than ways to take hints.
func candidates(hints [][]Hint, all Mask) []Hint {
	states := map[partial]bool{{shared: all, uniform: true}: true}
	for _, list := range hints {
		next := map[partial]bool{}
		for s := range states {
			for _, h := range list {
				next[s.with(h)] = true
			}
		}
		states = next
	}
	out := map[Hint]bool{}
	for s := range states {
		out[Hint{NUMANodeAffinity: s.shared, Preferred: s.uniform}] = true
	}
	return slices.Collect(maps.Keys(out))
}

func (p partial) with(h Hint) partial {
	if m := h.NUMANodeAffinity; m != 0 {
		p.shared &= m
		if p.same == 0 {
			p.same = m
		}
		p.uniform = p.uniform && m == p.same
	}
	p.uniform = p.uniform && h.Preferred
	if !p.uniform {
		p.same = MaskOf(0) // no longer of interest
	}
	return p
}

// neededNodes is the size of the smallest hint of the resource that needs most nodes.
func neededNodes(hints [][]Hint) int {
	most := 0
	for _, list := range hints {
		least := 0
		for _, h := range list {
			if n := h.NUMANodeAffinity.Count(); n != 0 && (least == 0 || n < least) {
				least = n
			}
		}
		most = max(most, least)
	}
	return most
}

// order is which of two candidates is to be taken.
type order struct {
	want    int // nodes of the resource that needs most
	numa    NUMAInfo
	closest bool
}

// better tells whether a is strictly to be taken before b.
func (o order) better(a, b Hint) bool {
	if a.Preferred != b.Preferred {
		return a.Preferred
	}
	n, m := a.NUMANodeAffinity.Count(), b.NUMANodeAffinity.Count()
	switch {
	case n == m && o.closest:
		x, y := o.numa.averageDistance(a.NUMANodeAffinity), o.numa.averageDistance(b.NUMANodeAffinity)
		if x != y {
			return x < y
		}
		return a.NUMANodeAffinity < b.NUMANodeAffinity
	case n == m:
		return a.NUMANodeAffinity < b.NUMANodeAffinity
	case a.Preferred:
		return n < m
	case n <= o.want && m <= o.want:
		return n > m
	}
	return n < m // the one that is not above what is wanted, or is less above it
}
