package schedule

import (
	"encoding/binary"
	"maps"
	"slices"

	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// nodeGroups divides the rows of a podShape into groups for which every plugin returns the same,
// but for points that come from the row alone: rows with the same status of the podShape and raw
// scores that are scaled, in the same domains or, where a row is its domain's only one, in domains
// with the same sums. A cycle calls plugins for one row of each group; a row moves to another group
// when its node changes.
type nodeGroups struct {
	shape          *podShape
	aggregates     []*cachedAggregate // what plugins keep over all nodes, for this Pod's shape
	nominatedScope nominatedScope
	changeClocks
	mayBeEarlier []bool // by refusal number of the podShape: one of those plugins may refuse before it
	generation   int64  // of the snapshot that the groups are about; 0: none yet
	version      int64  // of the columns that the groups are made by
	used         int64
	retryAt      int64 // there were too many groups: the turn from which on it is tried again
	ranks        columns.Ranks
	groups       []nodeGroup // by number; those without rows are in free
	free         []int32
	index        map[string]int32
	lastRefused
	scored *groupScores // by the cycle that used the groups last
}

// lastRefused is the group that a refused row was put into last, by its status alone.
type lastRefused struct {
	group         int32 // -1: none
	refusalNumber uint16
}

// nodeGroup is rows that look alike.
type nodeGroup struct {
	key           string
	refusalNumber uint16            // the podShape's
	row           int32             // one of them
	status        *framework.Status // in this cycle; nil: they pass
}

// Groupings are bounded in number and, roughly, in the bytes that all of them take together.
const (
	maxNodeGroupings = 256
	nodeGroupsBudget = 128 << 20
)

// retryInterval is for how many cycles it is not tried again to divide a podShape whose rows differ
// too much: to find that out costs as much as asking about each of them.
const retryInterval = 256

// nodeGroupsKey is what groups are made by.
type nodeGroupsKey struct {
	shape          *podShape
	aggregates     [4]*cachedAggregate
	nominatedScope nominatedScope
}

// maxGroups is how many groups n rows may have: with more of them asking about each row costs
// hardly more.
func maxGroups(n int) int { return max(64, n/4) }

// nodeGroupsOf finds or makes the groups, brought up to the snapshot; nil when rows differ too
// much.
func (m *EquivalenceCache) nodeGroupsOf(c *cycle, by nodeGroupsKey) *nodeGroups {
	p := m.nodeGroups[by]
	if p == nil {
		if m.nodeGroups == nil {
			m.nodeGroups = map[nodeGroupsKey]*nodeGroups{}
		}
		p = &nodeGroups{shape: by.shape, aggregates: slices.Clone(by.aggregates[:]), nominatedScope: by.nominatedScope,
			lastRefused: lastRefused{group: -1}, scored: &groupScores{}}
		p.aggregates = slices.DeleteFunc(p.aggregates, func(k *cachedAggregate) bool { return k == nil })
		m.nodeGroups[by] = p
	}
	p.used = m.clock
	had := p.ranks.Groups()
	parted := m.clock >= p.retryAt && p.sync(c)
	if len(m.nodeGroups) > maxNodeGroupings || p.ranks.Groups() > had {
		m.evictNodeGroups()
	}
	if !parted {
		return nil
	}
	return p
}

// evictNodeGroups drops those not used for longest while there are too many, or they take too much;
// that of the cycle under way stays.
func (m *EquivalenceCache) evictNodeGroups() {
	bytes := 0
	for _, p := range m.nodeGroups {
		bytes += p.ranks.Bytes()
	}
	for len(m.nodeGroups) > maxNodeGroupings || bytes > nodeGroupsBudget {
		var oldest nodeGroupsKey
		turn := m.clock
		for by, p := range m.nodeGroups {
			if p.used < turn {
				oldest, turn = by, p.used
			}
		}
		if turn == m.clock {
			return
		}
		bytes -= m.nodeGroups[oldest].ranks.Bytes()
		delete(m.nodeGroups, oldest)
	}
}

// removeNodeGroups forgets those that rest on what is forgotten.
func (m *EquivalenceCache) removeNodeGroups(of *podShape, aggregates *cachedAggregate) {
	maps.DeleteFunc(m.nodeGroups, func(by nodeGroupsKey, _ *nodeGroups) bool {
		return by.shape == of || aggregates != nil && slices.Contains(by.aggregates[:], aggregates)
	})
}

// sync moves the rows that changed; false when there are too many groups.
func (p *nodeGroups) sync(c *cycle) bool {
	version := p.columnsVersion()
	moved, known := p.rowsWithChangedNominations(c)
	shifted, complete := p.rowsWithChangedAggregates(c)
	if moved = append(moved, shifted...); !known || !complete {
		p.generation = 0
	}
	if p.version != version || p.generation == 0 {
		p.ranks.Reset(len(p.shape.refusalNumbers))
		p.groups, p.free, p.index, p.generation, p.version = nil, nil, map[string]int32{}, 0, version
		p.group = -1
	}
	if p.generation != c.Snapshot.Generation() {
		moved = append(moved, p.shape.cache.changedRows(&c.Input, p.generation)...)
	}
	for _, row := range moved {
		if !p.assignRow(c, row) {
			p.ranks, p.groups, p.free, p.index, p.generation = columns.Ranks{}, nil, nil, nil, 0
			p.group = -1
			p.retryAt = p.shape.cache.clock + retryInterval
			return false
		}
	}
	p.generation = c.Snapshot.Generation()
	return true
}

// columnsVersion tells which state of the columns rows are distinguished by.
func (p *nodeGroups) columnsVersion() int64 {
	v := int64(1)
	for _, s := range p.aggregates {
		for _, l := range s.TopologyLabels() {
			v += 1 + l.Version()
		}
	}
	return v
}

// aggregateBeforeRefusal tells whether an aggregating plugin may refuse before a status of the
// podShape.
func (p *nodeGroups) aggregateBeforeRefusal(no uint16) bool {
	for len(p.mayBeEarlier) < len(p.shape.refusedBy) {
		p.mayBeEarlier = append(p.mayBeEarlier, p.aggregateBefore(p.shape.refusedBy[len(p.mayBeEarlier)]))
	}
	return p.mayBeEarlier[no]
}

// aggregateBefore tells whether an aggregating plugin is asked before a place in the list of
// filters.
func (p *nodeGroups) aggregateBefore(at int) bool {
	return slices.ContainsFunc(p.shape.set.Filter[:max(at, 0)], func(f framework.FilterPlugin) bool {
		return slices.ContainsFunc(p.aggregates, func(s *cachedAggregate) bool { return s.plugin == f.Name() })
	})
}

// assignRow puts a row into the group of its status and scores, a new one if there is none yet.
// False: the row cannot be grouped, since a plugin that must be asked failed or there are too many
// groups; the Pod is then scheduled node by node.
func (p *nodeGroups) assignRow(c *cycle, row int32) bool {
	m := p.shape.cache
	no, ok := p.refusalOfRow(c, row)
	if !ok {
		return false
	}
	was := p.ranks.Group(row)
	if p.refusalNumber == no && p.group >= 0 { // most rows that many ask about look like the one before
		p.moveRow(row, was, p.group)
		return true
	}
	m.key = p.appendGroupKey(m.key[:0], row, no)
	g, known := p.index[string(m.key)]
	if !known {
		if len(p.index) >= maxGroups(p.ranks.Len()) {
			return false
		}
		g = p.newGroup(nodeGroup{key: string(m.key), refusalNumber: no, row: row})
	}
	if p.group = -1; no != 0 && !p.aggregateBeforeRefusal(no) { // rows with this status are one group
		p.group, p.refusalNumber = g, no
	}
	p.moveRow(row, was, g)
	return true
}

// moveRow puts a row into a group.
func (p *nodeGroups) moveRow(row, was, g int32) {
	p.ranks.Set(row, g, p.shape.totalScore(row))
	if was >= 0 && was != g && p.ranks.Size(was) == 0 {
		if p.group == was {
			p.group = -1
		}
		delete(p.index, p.groups[was].key)
		p.free = append(p.free, was)
	}
}

// newGroup adds a group without rows and returns its number; numbers of groups that became empty
// are given again.
func (p *nodeGroups) newGroup(g nodeGroup) int32 {
	n := len(p.free)
	if n == 0 {
		p.groups = append(p.groups, nodeGroup{})
		p.free, n = append(p.free, p.ranks.AddGroup()), 1
	}
	at := p.free[n-1]
	p.free = p.free[:n-1]
	p.groups[at], p.index[g.key] = g, at
	return at
}

// appendGroupKey appends what tells the row from others.
func (p *nodeGroups) appendGroupKey(to []byte, row int32, no uint16) []byte {
	to = binary.AppendUvarint(to, uint64(no))
	if no == 0 {
		for i := range p.shape.compiledScorers {
			if s := &p.shape.compiledScorers[i]; s.scaled {
				to = AppendInt(to, int64(s.rawScore(row)))
			}
		}
	} else if !p.aggregateBeforeRefusal(no) {
		return to
	}
	for _, s := range p.aggregates {
		if s.changes != nil {
			to = s.AppendRowState(to, 0, row)
		}
		for n := range s.TopologyLabels() {
			to = s.AppendRowState(to, n, row)
		}
	}
	return to
}

// eachGroup calls back for each group that has rows.
func (p *nodeGroups) eachGroup(do func(at int32, g *nodeGroup)) {
	for i := range p.groups {
		if p.ranks.Size(int32(i)) == 0 {
			continue
		}
		g := &p.groups[i]
		if p.ranks.Group(g.row) != int32(i) {
			g.row = p.ranks.First(int32(i))
		}
		do(int32(i), g)
	}
}
