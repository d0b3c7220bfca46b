package schedule

import (
	"context"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// cacheBudget bounds the bytes that the podShapes of an EquivalenceCache take, roughly.
const cacheBudget = 256 << 20

// bytesPerNode is what a podShape takes per node, roughly: status, two raw scores, points, group;
// scores that are 0 everywhere take none.
const bytesPerNode = 24

// minPodShapes are kept however large the cluster is.
const minPodShapes = 16

// EquivalenceCache keeps, from cycle to cycle, columns of the nodes and the statuses of each shape
// of Pods; only nodes that changed are evaluated again. The Results are the same as without it. It
// belongs to one goroutine and the snapshots of one snapshot.Cache.
type EquivalenceCache struct {
	Table           columns.Table
	shapePlugins    map[*PluginSet]*shapePlugins
	podShapes       map[*shapePlugins]map[string]*podShape
	usedRows        int
	clock           int64 // counts cycles, for the choice of whom to forget
	counts          CacheCounts
	aggregatesByKey map[aggregateKey]*cachedAggregate

	nodeGroups map[nodeGroupsKey]*nodeGroups

	key     []byte
	rows    []int32
	allRows []int32 // all rows
	seen    []int64 // by row: the turn it was last listed in
	stamp   int64
	scratch
	nominatedCache
}

// CacheCounts tell how an EquivalenceCache was used since it was made.
type CacheCounts struct {
	Hits          int64 // cycles of a shape that was known
	Misses        int64 // cycles of a new shape
	Bypassed      int64 // cycles that the cache could not help with
	RowsFiltered  int64 // cycles of a known shape in which plugins were called for every node that was left
	NodesFiltered int64 // statuses renewed, one per node and shape
	PodShapes     int   // shapes held now
}

// Counts tells how the memory was used.
func (m *EquivalenceCache) Counts() CacheCounts {
	c := m.counts
	c.PodShapes = m.usedRows
	return c
}

// sync brings columns up to the snapshot of a cycle; false when the cache cannot help.
func (m *EquivalenceCache) sync(in *Input) bool {
	if in.Snapshot.Layout() == 0 || in.Snapshot.Len() == 0 {
		return false
	}
	if m.Table.Layout() != in.Snapshot.Layout() { // nodes came or went: rows mean other nodes now
		m.podShapes, m.usedRows, m.aggregatesByKey, m.nodeGroups, m.nominatedStatuses = nil, 0, nil, nil, nil
		m.seen = make([]int64, in.Snapshot.Len())
	}
	m.Table.Sync(in.Snapshot)
	return true
}

// podShapeOf finds or makes the podShape of the Pod; nil when its plugins share no results.
func (m *EquivalenceCache) podShapeOf(ctx context.Context, in *Input) *podShape {
	if m.shapePlugins == nil {
		m.shapePlugins = map[*PluginSet]*shapePlugins{}
	}
	p := m.shapePlugins[in.Plugins]
	if p == nil {
		p = newShapePlugins(in.Plugins)
		m.shapePlugins[in.Plugins] = p
	}
	if m.podShapes == nil {
		m.podShapes = map[*shapePlugins]map[string]*podShape{}
	}
	if m.podShapes[p] == nil {
		m.podShapes[p] = map[string]*podShape{}
	}
	var local uint64
	m.clock++
	m.key, local = p.shapeKey(m.key[:0], in.Pod)
	c := m.podShapes[p][string(m.key)]
	if c != nil {
		m.counts.Hits++
		c.used = m.clock
		return c
	}
	m.counts.Misses++
	m.evictPodShape(in.Snapshot.Len())
	c = newPodShape(p, local, m)
	c.used = m.clock
	m.podShapes[p][string(m.key)] = c
	m.usedRows++
	c.prepare(ctx, in)
	return c
}

// evictPodShape drops the podShape not used for longest when the budget is full.
func (m *EquivalenceCache) evictPodShape(rows int) {
	if m.usedRows < max(cacheBudget/(rows*bytesPerNode), minPodShapes) {
		return
	}
	var (
		from map[string]*podShape
		key  string
		turn = m.clock
	)
	for _, classes := range m.podShapes {
		for k, c := range classes {
			if c.used < turn {
				from, key, turn = classes, k, c.used
			}
		}
	}
	if from != nil {
		m.removeNodeGroups(from[key], nil)
		m.nominatedStatuses = nil
		delete(from, key)
		m.usedRows--
	}
}

// changedRows lists the rows that changed after a generation, each once; all of them when that is
// not known.
func (m *EquivalenceCache) changedRows(in *Input, generation int64) []int32 {
	rows, known := m.rows[:0], false
	if generation > 0 {
		rows, known = in.Snapshot.Since(generation, rows)
	}
	if !known {
		rows = rows[:0]
		for i := range m.Table.Len() {
			rows = append(rows, int32(i))
		}
		m.rows = rows
		return rows
	}
	m.rows = rows
	m.stamp++
	once := rows[:0]
	for _, row := range rows {
		if m.seen[row] != m.stamp {
			m.seen[row] = m.stamp
			once = append(once, row)
		}
	}
	return once
}
