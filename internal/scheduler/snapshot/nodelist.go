package snapshot

import (
	"slices"

	"k8s.io/kube-scheduler/framework"
)

// pageSize is how many nodes share a page. A Freeze copies the pages that hold a changed node, and
// shares the others with the Snapshot before.
const pageSize = 64

type nodePage [pageSize]*NodeInfo

// nodeList is a list of nodes of which versions share what did not change.
type nodeList struct {
	pages []*nodePage
	n     int
}

func newNodeList(list []*NodeInfo) nodeList {
	p := nodeList{pages: make([]*nodePage, (len(list)+pageSize-1)/pageSize), n: len(list)}
	for i := range p.pages {
		p.pages[i] = new(nodePage)
		copy(p.pages[i][:], list[i*pageSize:])
	}
	return p
}

func (p *nodeList) at(i int) *NodeInfo { return p.pages[i/pageSize][i%pageSize] }

// copy is a copy to be edited with set, which must be given the pages already copied.
func (p *nodeList) copy() nodeList { return nodeList{pages: slices.Clone(p.pages), n: p.n} }

// set replaces a node in a version of old.
func (p *nodeList) set(old *nodeList, i int, n *NodeInfo) {
	k := i / pageSize
	if p.pages[k] == old.pages[k] {
		own := *old.pages[k]
		p.pages[k] = &own
	}
	p.pages[k][i%pageSize] = n
}

func (p *nodeList) list() []*NodeInfo {
	out := make([]*NodeInfo, p.n)
	for k, pg := range p.pages {
		copy(out[k*pageSize:], pg[:])
	}
	return out
}

// At gives a node by its place in the list, 0 to Len-1.
func (s *Snapshot) At(i int) framework.NodeInfo { return s.nodeList.at(i) }

// Index gives a node's place in the list.
func (s *Snapshot) Index(name string) (int, bool) {
	i, ok := s.index[name]
	return i, ok
}

// Layout names the order of nodes: snapshots of one Cache with an equal layout list the same nodes
// at the same places. 0: the snapshot was edited by hand.
func (s *Snapshot) Layout() int64 { return s.layout }

// changeLog remembers which places of the list changed, and when, since the layout was made.
type changeLog struct {
	entries []nodeChange // grows at its end only: snapshots share it
	from    int64        // the generation before the first move
}

type nodeChange struct {
	generation int64
	index      int32
}

// maxChanges bounds the log to this many moves per node, and some.
const maxChanges = 4

// Since lists the places whose node changed after a generation of the same layout, some of them
// more than once; false when that is not remembered.
func (s *Snapshot) Since(generation int64, to []int32) ([]int32, bool) {
	if s.layout == 0 || generation < s.changes.from {
		return to, false
	}
	log := s.changes.entries
	for i := len(log) - 1; i >= 0 && log[i].generation > generation; i-- {
		to = append(to, log[i].index)
	}
	return to, true
}

// HasPodsWithAffinity tells whether there may be Pods with inter-Pod affinity or anti-affinity of
// any kind.
func (s *Snapshot) HasPodsWithAffinity() bool { return s.hasAffinity }
