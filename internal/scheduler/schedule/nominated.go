package schedule

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
)

// Nominations tells which Pod is nominated to which node, and where that changed. Lists that it
// gives are never changed.
type Nominations interface {
	// NominatedNodes lists the nodes that are nominated for somebody.
	NominatedNodes() []string
	// NominatedPodsForNode lists the Pods nominated to a node.
	NominatedPodsForNode(node string) []framework.PodInfo
	// NominatedNodeName gives the node that a Pod is nominated to; empty: none.
	NominatedNodeName(uid types.UID) string
	// Since lists the nodes whose nominations changed after a time, some more than once; false: any
	// may have. now is the time to ask with next.
	Since(clock int64) (nodes []string, now int64, known bool)
}

// NominatedByRow are the Pods nominated to each row. Where what changed is known, only that is
// read.
type NominatedByRow struct {
	source   Nominations
	layout   int64
	clock    int64
	pods     [][]framework.PodInfo
	notEmpty bool // some of these may not be nil
}

// Sync reads what is nominated by now on the nodes of a snapshot.
func (p *NominatedByRow) Sync(in *Input) {
	if p.layout != in.Snapshot.Layout() || len(p.pods) != in.Snapshot.Len() || p.source != in.Nominations {
		*p = NominatedByRow{source: in.Nominations, layout: in.Snapshot.Layout(),
			pods: make([][]framework.PodInfo, in.Snapshot.Len())}
	}
	names, known := in.NominatedNodes, false
	if p.source != nil {
		var now int64
		if names, now, known = p.source.Since(p.clock); !known {
			names = p.source.NominatedNodes()
		}
		p.clock = now
	}
	if !known && p.notEmpty {
		clear(p.pods)
	}
	p.notEmpty = p.notEmpty && known || len(names) > 0
	for _, name := range names {
		row, ok := in.Snapshot.Index(name)
		switch {
		case !ok:
		case p.source != nil:
			p.pods[row] = p.source.NominatedPodsForNode(name)
		default:
			p.pods[row] = in.NominatedPodsForNode(name)
		}
	}
}

// Pods lists the Pods nominated to a row.
func (p *NominatedByRow) Pods(row int32) []framework.PodInfo { return p.pods[row] }

// nominatedCache are statuses about rows that are nominated for others, as they were given last.
// They hold while node and nominations are the same.
type nominatedCache struct {
	nominated         NominatedByRow
	nominatedStatuses map[nominatedKey]nominatedStatus
}

// nominatedKey is a row, as Pods of one podShape and priority see it.
type nominatedKey struct {
	shape    *podShape
	priority int32
	row      int
}

type nominatedStatus struct {
	node      framework.NodeInfo
	nominated []framework.PodInfo
	status    *framework.Status
}

// maxNominatedStatuses bounds them; then they are made anew.
const maxNominatedStatuses = 1 << 16

// filterWithNominatedPods filters a row that is nominated for others, with them and without. Where
// all plugins share results, the status is the same until the node or the nominations change.
func (m *rowFilter) filterWithNominatedPods(row int) *framework.Status {
	node := m.cycle.Cache.Table.Nodes[row]
	if len(m.nodePlugins) > 0 {
		return m.cycle.runFilterPluginsWithNominatedPods(m.all, node)
	}
	rivals := m.cycle.Cache.nominated.pods[row]
	// it is its own nomination
	if slices.ContainsFunc(rivals, func(p framework.PodInfo) bool { return p.GetPod().UID == m.cycle.Pod.UID }) {
		return m.cycle.runFilterPluginsWithNominatedPods(m.all, node)
	}
	at := nominatedKey{m.shape, pod.Priority(m.cycle.Pod), row}
	if b, ok := m.cycle.Cache.nominatedStatuses[at]; ok && b.node == node && slices.Equal(b.nominated, rivals) {
		return b.status
	}
	if m.cycle.Cache.nominatedStatuses == nil || len(m.cycle.Cache.nominatedStatuses) >= maxNominatedStatuses {
		m.cycle.Cache.nominatedStatuses = map[nominatedKey]nominatedStatus{}
	}
	status := m.cycle.runFilterPluginsWithNominatedPods(m.all, node)
	m.cycle.Cache.nominatedStatuses[at] = nominatedStatus{node, rivals, status}
	return status
}

// hasNominatedPods tells whether a node of the snapshot is nominated for others.
func (c *cycle) hasNominatedPods() bool {
	return c.NominatedPodsForNode != nil && slices.ContainsFunc(c.NominatedNodes, func(name string) bool {
		_, ok := c.Snapshot.Index(name)
		return ok
	})
}

// nominatedScope is which nominations count for the Pods of one grouping: those to Pods of no lower
// priority. The zero value knows of no nominations.
type nominatedScope struct {
	enabled  bool
	priority int32
}

// rowsWithChangedNominations lists rows to group anew because nominations changed, or because one
// is or was the Pod's own, which keeps no place from it; false when it is not known which these
// are.
func (p *nodeGroups) rowsWithChangedNominations(c *cycle) (rows []int32, known bool) {
	if !p.nominatedScope.enabled {
		return nil, true
	}
	since := p.nominations
	p.nominations = c.Cache.nominated.clock // what changed since is listed again
	rows, p.ownNominatedRows = p.ownNominatedRows, nil
	if row, ok := c.Snapshot.Index(c.Nominations.NominatedNodeName(c.Pod.UID)); ok {
		p.ownNominatedRows = []int32{int32(row)}
		rows = append(rows, int32(row))
	}
	if p.generation == 0 || since == p.nominations {
		return rows, true
	}
	names, _, known := c.Nominations.Since(since)
	for _, name := range names {
		if row, ok := c.Snapshot.Index(name); ok {
			rows = append(rows, int32(row))
		}
	}
	return rows, known
}

// refusalOfRow returns the number of the refusal that the nodes of a row's group share: that of the
// Pod's shape, or, where Pods are nominated to the row's node, what all plugins say with their room
// counted (AddNominatedPods). It returns false when the row has no refusal that can be shared.
func (p *nodeGroups) refusalOfRow(c *cycle, row int32) (uint16, bool) {
	if !p.nominatedScope.enabled || len(c.Cache.nominated.pods[row]) == 0 {
		return p.shape.refusalNumbers[row], true
	}
	status := c.runFilterPluginsWithNominatedPods(notSkipped(c.Plugins.Filter, c.State.GetSkipFilterPlugins()),
		c.Cache.Table.Nodes[row])
	if status.IsSuccess() {
		return 0, true
	}
	no := p.shape.intern(status)
	return no, status.IsRejected() && !p.shape.uncacheable
}
