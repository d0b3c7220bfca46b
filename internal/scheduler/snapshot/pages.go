package snapshot

import (
	"slices"

	"k8s.io/kube-scheduler/framework"
)

// pageSize is how many nodes share a page. A Freeze copies the pages that hold a changed node, and shares the others with the Snapshot before.
const pageSize = 64

type page [pageSize]*NodeInfo

// pages is a list of nodes of which versions share what did not change.
type pages struct {
	of []*page
	n  int
}

func paged(list []*NodeInfo) pages {
	p := pages{of: make([]*page, (len(list)+pageSize-1)/pageSize), n: len(list)}
	for i := range p.of {
		p.of[i] = new(page)
		copy(p.of[i][:], list[i*pageSize:])
	}
	return p
}

func (p *pages) at(i int) *NodeInfo { return p.of[i/pageSize][i%pageSize] }

// version is a copy to be edited with set, which must be given the pages already copied.
func (p *pages) version() pages { return pages{of: slices.Clone(p.of), n: p.n} }

// set replaces a node in a version of old.
func (p *pages) set(old *pages, i int, n *NodeInfo) {
	k := i / pageSize
	if p.of[k] == old.of[k] {
		own := *old.of[k]
		p.of[k] = &own
	}
	p.of[k][i%pageSize] = n
}

func (p *pages) list() []*NodeInfo {
	out := make([]*NodeInfo, p.n)
	for k, pg := range p.of {
		copy(out[k*pageSize:], pg[:])
	}
	return out
}

// At gives a node by its place in the list, 0 to Len-1.
func (s *Snapshot) At(i int) framework.NodeInfo { return s.pages.at(i) }

// Index gives a node's place in the list.
func (s *Snapshot) Index(name string) (int, bool) {
	i, ok := s.index[name]
	return i, ok
}

// Layout names the order of nodes: snapshots of one World with an equal layout list the same nodes at the same places. 0: the snapshot was edited by hand.
func (s *Snapshot) Layout() int64 { return s.layout }

// moves remembers which places of the list changed, and when, since the layout was made.
type moves struct {
	log  []move // grows at its end only: snapshots share it
	from int64  // the generation before the first move
}

type move struct {
	generation int64
	at         int32
}

// movesKept bounds the log to this many moves per node, and some.
const movesKept = 4

// Since lists the places whose node changed after a generation of the same layout, some of them more than once; false when that is not remembered.
func (s *Snapshot) Since(generation int64, to []int32) ([]int32, bool) {
	if s.layout == 0 || generation < s.moves.from {
		return to, false
	}
	log := s.moves.log
	for i := len(log) - 1; i >= 0 && log[i].generation > generation; i-- {
		to = append(to, log[i].at)
	}
	return to, true
}

// Affine tells whether there may be Pods with inter-Pod affinity or anti-affinity of any kind.
func (s *Snapshot) Affine() bool { return s.affine }
