package place

import (
	"encoding/binary"
	"maps"
	"slices"

	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// partition parts the rows of a class into groups of which every judge says the same, but for points that come from the row alone: rows with the same verdict of the
// class and raw scores that are scaled, in the same domains or, where a row is its domain's only one, in domains with the same sums. A ruling asks about one row of each
// group; a row moves to another group when its node changes.
type partition struct {
	class *class
	sums  []*kept // what judges keep over all nodes, for this Pod's shape
	rival rival
	heard
	early      []bool // by verdict of the class: one of those judges may speak before it
	generation int64  // of the snapshot that the groups are about; 0: none yet
	version    int64  // of the columns that the groups are made by
	used       int64
	rests      int64 // there were too many groups: the turn from which on it is tried again
	ranks      columns.Ranks
	groups     []group // by number; those without rows are in free
	free       []int32
	index      map[string]int32
	recent
	record
}

// recent is the group that a refused row was put into last, by its verdict alone.
type recent struct {
	last   int32 // -1: none
	lastNo uint16
}

// group is rows that look alike.
type group struct {
	key  string
	no   uint16            // the class's verdict
	row  int32             // one of them
	said *framework.Status // in this ruling; nil: they pass
}

// Partitions are bounded in number and, roughly, in the bytes that all take together.
const (
	mostPartitions   = 256
	partitionsBudget = 128 << 20
)

// rest is for how many rulings it is not tried again to part a class whose rows differ too much: to find that out costs as much as asking about each of them.
const rest = 256

// parts is what a partition is made by.
type parts struct {
	class *class
	sums  [4]*kept
	rival rival
}

// mostGroups is how many groups n rows may have: with more of them asking about each row costs hardly more.
func mostGroups(n int) int { return max(64, n/4) }

// partitionOf finds or makes the groups, brought up to the snapshot; nil when rows differ too much.
func (m *Memory) partitionOf(c *cycle, by parts) *partition {
	p := m.partitions[by]
	if p == nil {
		if m.partitions == nil {
			m.partitions = map[parts]*partition{}
		}
		p = &partition{class: by.class, sums: slices.Clone(by.sums[:]), rival: by.rival, recent: recent{last: -1}}
		p.sums = slices.DeleteFunc(p.sums, func(k *kept) bool { return k == nil })
		m.partitions[by] = p
	}
	p.used = m.turn
	had := p.ranks.Groups()
	parted := m.turn >= p.rests && p.follow(c)
	if len(m.partitions) > mostPartitions || p.ranks.Groups() > had {
		m.trimPartitions()
	}
	if !parted {
		return nil
	}
	return p
}

// trimPartitions drops those not used for longest while there are too many, or they take too much; that of the ruling under way stays.
func (m *Memory) trimPartitions() {
	bytes := 0
	for _, p := range m.partitions {
		bytes += p.ranks.Bytes()
	}
	for len(m.partitions) > mostPartitions || bytes > partitionsBudget {
		var oldest parts
		turn := m.turn
		for by, p := range m.partitions {
			if p.used < turn {
				oldest, turn = by, p.used
			}
		}
		if turn == m.turn {
			return
		}
		bytes -= m.partitions[oldest].ranks.Bytes()
		delete(m.partitions, oldest)
	}
}

// dropPartitions forgets those that rest on what is forgotten.
func (m *Memory) dropPartitions(of *class, sums *kept) {
	maps.DeleteFunc(m.partitions, func(by parts, _ *partition) bool {
		return by.class == of || sums != nil && slices.Contains(by.sums[:], sums)
	})
}

// follow moves the rows that changed; false when there are too many groups.
func (p *partition) follow(c *cycle) bool {
	version := p.columns()
	moved, known := p.pledges(c)
	shifted, told := p.shifted(c)
	if moved = append(moved, shifted...); !known || !told {
		p.generation = 0
	}
	if p.version != version || p.generation == 0 {
		p.ranks.Reset(len(p.class.no))
		p.groups, p.free, p.index, p.generation, p.version = nil, nil, map[string]int32{}, 0, version
		p.last = -1
	}
	if p.generation != c.World.Generation() {
		moved = append(moved, p.class.memory.stale(&c.In, p.generation)...)
	}
	for _, row := range moved {
		if !p.put(c, row) {
			p.ranks, p.groups, p.free, p.index, p.generation = columns.Ranks{}, nil, nil, nil, 0
			p.last = -1
			p.rests = p.class.memory.turn + rest
			return false
		}
	}
	p.generation = c.World.Generation()
	return true
}

// columns tells which state of the columns rows are told apart by.
func (p *partition) columns() int64 {
	v := int64(1)
	for _, s := range p.sums {
		for _, l := range s.Keys() {
			v += 1 + l.Version()
		}
	}
	return v
}

// hears tells whether a judge with sums may speak before a verdict of the class.
func (p *partition) hears(no uint16) bool {
	for len(p.early) < len(p.class.by) {
		p.early = append(p.early, p.hearsBefore(p.class.by[len(p.early)]))
	}
	return p.early[no]
}

// hearsBefore tells whether a judge with sums is asked before a place in the list of filters.
func (p *partition) hearsBefore(at int) bool {
	return slices.ContainsFunc(p.class.Filter[:max(at, 0)], func(f framework.FilterPlugin) bool {
		return slices.ContainsFunc(p.sums, func(s *kept) bool { return s.judge == f.Name() })
	})
}

func (p *partition) put(c *cycle, row int32) bool {
	m := p.class.memory
	no, ok := p.verdict(c, row)
	if !ok {
		return false
	}
	was := p.ranks.Group(row)
	if p.lastNo == no && p.last >= 0 { // most rows that many ask about look like the one before
		p.move(row, was, p.last)
		return true
	}
	m.key = p.look(m.key[:0], row, no)
	g, known := p.index[string(m.key)]
	if !known {
		if len(p.index) >= mostGroups(p.ranks.Len()) {
			return false
		}
		g = p.begin(group{key: string(m.key), no: no, row: row})
	}
	if p.last = -1; no != 0 && !p.hears(no) { // rows with this verdict are one group
		p.last, p.lastNo = g, no
	}
	p.move(row, was, g)
	return true
}

// move puts a row into a group.
func (p *partition) move(row, was, g int32) {
	p.ranks.Put(row, g, p.class.points(row))
	if was >= 0 && was != g && p.ranks.Size(was) == 0 {
		if p.last == was {
			p.last = -1
		}
		delete(p.index, p.groups[was].key)
		p.free = append(p.free, was)
	}
}

func (p *partition) begin(g group) int32 {
	n := len(p.free)
	if n == 0 {
		p.groups = append(p.groups, group{})
		p.free, n = append(p.free, p.ranks.Grow()), 1
	}
	at := p.free[n-1]
	p.free = p.free[:n-1]
	p.groups[at], p.index[g.key] = g, at
	return at
}

// look appends what tells the row from others.
func (p *partition) look(to []byte, row int32, no uint16) []byte {
	to = binary.AppendUvarint(to, uint64(no))
	if no == 0 {
		for i := range p.class.scorers {
			if s := &p.class.scorers[i]; s.scaled {
				to = AppendInt(to, int64(s.at32(row)))
			}
		}
	} else if !p.hears(no) {
		return to
	}
	for _, s := range p.sums {
		if s.shifts != nil {
			to = s.Look(to, 0, row)
		}
		for n := range s.Keys() {
			to = s.Look(to, n, row)
		}
	}
	return to
}

// live calls back for each group that has rows.
func (p *partition) live(do func(at int32, g *group)) {
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
