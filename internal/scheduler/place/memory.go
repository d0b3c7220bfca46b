package place

import (
	"context"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// memoryBudget bounds the bytes that a Memory's classes take, roughly.
const memoryBudget = 256 << 20

// bytesPerRow is what a class takes per node, roughly: verdict, two raw scores, points, group; scores that are 0 everywhere take none.
const bytesPerRow = 24

// fewestClasses are kept however large the cluster is.
const fewestClasses = 16

// Memory keeps, from ruling to ruling, columns of the nodes and the verdicts of each shape of Pods; only nodes that changed are judged again. The rulings are the
// same as without it. It belongs to one goroutine and one World.
type Memory struct {
	Table   columns.Table
	panels  map[*Judges]*panel
	classes map[*panel]map[string]*class
	kept    int
	turn    int64 // counts rulings, for the choice of whom to forget
	counts  MemoryCounts
	tallies map[tallyKey]*kept

	partitions map[parts]*partition

	key   []byte
	rows  []int32
	every []int32 // all rows
	seen  []int64 // by row: the turn it was last listed in
	stamp int64
	scratch
	promises
}

// MemoryCounts tell how a Memory was used since it was made.
type MemoryCounts struct {
	Known   int64 // rulings about a shape that was known
	New     int64 // rulings about a new shape
	Plain   int64 // rulings the memory could not help with
	Swept   int64 // rulings about a shape for which judges were asked about every node that is left
	Judged  int64 // verdicts renewed, one per node and shape
	Classes int   // shapes held now
}

// Counts tells how the memory was used.
func (m *Memory) Counts() MemoryCounts {
	c := m.counts
	c.Classes = m.kept
	return c
}

// follow brings columns up to the snapshot of a ruling; false when the memory cannot help.
func (m *Memory) follow(in *In) bool {
	if in.World.Layout() == 0 || in.World.Len() == 0 {
		return false
	}
	if m.Table.Layout() != in.World.Layout() { // nodes came or went: rows mean other nodes now
		m.classes, m.kept, m.tallies, m.partitions, m.besides = nil, 0, nil, nil, nil
		m.seen = make([]int64, in.World.Len())
	}
	m.Table.Follow(in.World)
	return true
}

// classOf finds or makes the class of the Pod; nil when its judges cannot be shared.
func (m *Memory) classOf(ctx context.Context, in *In) *class {
	if m.panels == nil {
		m.panels = map[*Judges]*panel{}
	}
	p := m.panels[in.Judges]
	if p == nil {
		p = newPanel(in.Judges)
		m.panels[in.Judges] = p
	}
	if m.classes == nil {
		m.classes = map[*panel]map[string]*class{}
	}
	if m.classes[p] == nil {
		m.classes[p] = map[string]*class{}
	}
	var local uint64
	m.turn++
	m.key, local = p.shape(m.key[:0], in.Pod)
	c := m.classes[p][string(m.key)]
	if c != nil {
		m.counts.Known++
		c.used = m.turn
		return c
	}
	m.counts.New++
	m.forget(in.World.Len())
	c = newClass(p, local, m)
	c.used = m.turn
	m.classes[p][string(m.key)] = c
	m.kept++
	c.begin(ctx, in)
	return c
}

// forget drops the class not used for longest when the budget is full.
func (m *Memory) forget(rows int) {
	if m.kept < max(memoryBudget/(rows*bytesPerRow), fewestClasses) {
		return
	}
	var (
		from map[string]*class
		key  string
		turn = m.turn
	)
	for _, classes := range m.classes {
		for k, c := range classes {
			if c.used < turn {
				from, key, turn = classes, k, c.used
			}
		}
	}
	if from != nil {
		m.dropPartitions(from[key], nil)
		m.besides = nil
		delete(from, key)
		m.kept--
	}
}

// stale lists the rows that changed after a generation, each once; all of them when that is not known.
func (m *Memory) stale(in *In, generation int64) []int32 {
	rows, known := m.rows[:0], false
	if generation > 0 {
		rows, known = in.World.Since(generation, rows)
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
