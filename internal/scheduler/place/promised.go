package place

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
)

// Pledges tells who is promised which node, and where that changed. Lists that it gives are never changed.
type Pledges interface {
	// Nodes lists the nodes that are promised to somebody.
	Nodes() []string
	// On lists the Pods promised a node.
	On(node string) []framework.PodInfo
	// Of gives the node promised to a Pod; empty: none.
	Of(uid types.UID) string
	// Since lists the nodes whose promises changed after a time, some more than once; false: any may have. now is the time to ask with next.
	Since(clock int64) (nodes []string, now int64, known bool)
}

// Awaited are the Pods promised each row. Where it is told what changed, only that is read.
type Awaited struct {
	from   Pledges
	layout int64
	clock  int64
	on     [][]framework.PodInfo
	any    bool // some of these may not be nil
}

// Follow reads what is promised by now on the nodes of a snapshot.
func (p *Awaited) Follow(in *In) {
	if p.layout != in.World.Layout() || len(p.on) != in.World.Len() || p.from != in.Pledged {
		*p = Awaited{from: in.Pledged, layout: in.World.Layout(), on: make([][]framework.PodInfo, in.World.Len())}
	}
	names, known := in.Promised, false
	if p.from != nil {
		var now int64
		if names, now, known = p.from.Since(p.clock); !known {
			names = p.from.Nodes()
		}
		p.clock = now
	}
	if !known && p.any {
		clear(p.on)
	}
	p.any = p.any && known || len(names) > 0
	for _, name := range names {
		row, ok := in.World.Index(name)
		switch {
		case !ok:
		case p.from != nil:
			p.on[row] = p.from.On(name)
		default:
			p.on[row] = in.Nominated(name)
		}
	}
}

// On lists the Pods promised a row.
func (p *Awaited) On(row int32) []framework.PodInfo { return p.on[row] }

// promises are verdicts about rows that are promised to others, as they were given last. They hold while node and promises are the same.
type promises struct {
	who     Awaited
	besides map[promisedTo]besides
}

// promisedTo is a row, as Pods of one class and priority see it.
type promisedTo struct {
	class    *class
	priority int32
	row      int
}

type besides struct {
	node   framework.NodeInfo
	rivals []framework.PodInfo
	said   *framework.Status
}

// promisesKept bounds them; then they are made anew.
const promisesKept = 1 << 16

// besides judges a row that is promised to others, with them and without. Where all judges share, the verdict is the same until the node or the promises change.
func (m *mixer) besides(row int) *framework.Status {
	node := m.Memory.Table.Nodes[row]
	if len(m.others) > 0 {
		return m.judge(m.all, node)
	}
	rivals := m.Memory.who.on[row]
	if slices.ContainsFunc(rivals, func(p framework.PodInfo) bool { return p.GetPod().UID == m.Pod.UID }) { // it is its own promise
		return m.judge(m.all, node)
	}
	at := promisedTo{m.class, pod.Priority(m.Pod), row}
	if b, ok := m.Memory.besides[at]; ok && b.node == node && slices.Equal(b.rivals, rivals) {
		return b.said
	}
	if m.Memory.besides == nil || len(m.Memory.besides) >= promisesKept {
		m.Memory.besides = map[promisedTo]besides{}
	}
	said := m.judge(m.all, node)
	m.Memory.besides[at] = besides{node, rivals, said}
	return said
}

// promised tells whether a node of the snapshot is promised to others.
func (c *cycle) promised() bool {
	return c.Nominated != nil && slices.ContainsFunc(c.Promised, func(name string) bool {
		_, ok := c.World.Index(name)
		return ok
	})
}

// rival is which promises count for the Pods of a partition: those to Pods of no lower priority. The zero value knows of no promises.
type rival struct {
	counts   bool
	priority int32
}

// pledges lists rows to part anew because promises changed, or because one is or was the Pod's own, which keeps no place from it; false when it is not known which these are.
func (p *partition) pledges(c *cycle) (rows []int32, known bool) {
	if !p.rival.counts {
		return nil, true
	}
	since := p.pledged
	p.pledged = c.Memory.who.clock // what changed since is told again
	rows, p.owned = p.owned, nil
	if row, ok := c.World.Index(c.Pledged.Of(c.Pod.UID)); ok {
		p.owned = []int32{int32(row)}
		rows = append(rows, int32(row))
	}
	if p.generation == 0 || since == p.pledged {
		return rows, true
	}
	names, _, known := c.Pledged.Since(since)
	for _, name := range names {
		if row, ok := c.World.Index(name); ok {
			rows = append(rows, int32(row))
		}
	}
	return rows, known
}

// verdict is the class's about a row, or that of all judges with the Pods beside it that are promised the row; false when there is none that can be shared.
func (p *partition) verdict(c *cycle, row int32) (uint16, bool) {
	if !p.rival.counts || len(c.Memory.who.on[row]) == 0 {
		return p.class.no[row], true
	}
	said := c.judge(active(c.Judges.Filter, c.State.GetSkipFilterPlugins()), c.Memory.Table.Nodes[row])
	if said.IsSuccess() {
		return 0, true
	}
	no := p.class.intern(said)
	return no, said.IsRejected() && !p.class.odd
}
