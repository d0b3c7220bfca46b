package place

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// Tallying is a judge whose verdicts come from sums over all nodes. It keeps them for Pods that read the same sums, and changes them as nodes change.
type Tallying interface {
	framework.Plugin
	// Tallied appends what the judge reads of the Pod; false: for this Pod it must be asked anew each time.
	Tallied(to []byte, p *v1.Pod) ([]byte, bool)
	// Tally begins sums for Pods like this one, over no node yet; nil: it must be asked anew each time after all.
	Tally(p *v1.Pod, t *columns.Table) Tally
}

// Tally is a judge's sums.
type Tally interface {
	// Holds tells whether what the sums rest on besides nodes is as it was; if not they are begun anew.
	Holds() bool
	// Move takes out what a row's node added, and adds what it adds now; was is nil at first. The columns show it as it is now.
	Move(row int32, was, is framework.NodeInfo)
	// PreFilter does what the judge's PreFilter does.
	PreFilter(state framework.CycleState, p *v1.Pod) *framework.Status
	// PreScore does what the judge's PreScore does.
	PreScore(state framework.CycleState, p *v1.Pod, feasible Feasible) *framework.Status
	// Opinion judges rows by the sums as they are. Of rows with equal looks it says the same.
	Opinion() *columns.Opinion
	// Keys are the labels by whose values sums are kept. There may be more of them later, at the end.
	Keys() []*columns.Labels
	// Look appends what the judge sees of a row by the nth key: the domain, or the sums of one that is the row's alone. It changes with the row's node and the keys' columns only.
	Look(to []byte, n int, row int32) []byte
}

// Feasible are the rows in the running.
type Feasible struct {
	Rows  []int32
	times []int32 // for how many a row stands; nil: each for itself
}

// Times tells for how many rows the nth stands: those that look like it to a judge with sums.
func (f *Feasible) Times(n int) int {
	if f.times == nil {
		return 1
	}
	return int(f.times[n])
}

// tallies are bounded in number: each remembers a node by row.
const mostTallies = 256

// kept is a tally and the nodes it is over.
type kept struct {
	Tally
	shifts     Shifting // nil: it does not
	judge      string
	nodes      []framework.NodeInfo
	generation int64
	used       int64
	opinion    *columns.Opinion // for the ruling under way
}

// tally finds or begins the sums of a judge for the Pod, brought up to the snapshot; nil when it keeps none.
func (m *Memory) tally(in *In, judge Tallying) *kept {
	m.key = append(AppendString(m.key[:0], judge.Name()), 0xff)
	key, ok := judge.Tallied(m.key, in.Pod)
	if m.key = key; !ok {
		return nil
	}
	if m.tallies == nil {
		m.tallies = map[tallyKey]*kept{}
	}
	k := m.tallies[tallyKey{in.Judges, string(key)}]
	if k == nil || !k.Holds() {
		switch {
		case k != nil:
			m.dropPartitions(nil, k)
		case len(m.tallies) >= mostTallies:
			m.dropTally()
		}
		sums := judge.Tally(in.Pod, &m.Table)
		if sums == nil {
			return nil
		}
		k = &kept{Tally: sums, judge: judge.Name(), nodes: make([]framework.NodeInfo, m.Table.Len())}
		k.shifts, _ = sums.(Shifting)
		m.tallies[tallyKey{in.Judges, string(key)}] = k
	}
	k.used = m.turn
	if k.generation == in.World.Generation() {
		return k
	}
	for _, row := range m.stale(in, k.generation) {
		if was, is := k.nodes[row], m.Table.Nodes[row]; was != is {
			k.Move(row, was, is)
			k.nodes[row] = is
		}
	}
	k.generation = in.World.Generation()
	return k
}

type tallyKey struct {
	judges *Judges
	shape  string
}

func (m *Memory) dropTally() {
	var oldest tallyKey
	turn := m.turn + 1
	for at, k := range m.tallies {
		if k.used < turn {
			oldest, turn = at, k.used
		}
	}
	m.dropPartitions(nil, m.tallies[oldest])
	delete(m.tallies, oldest)
}

// ChangedPods calls back for each Pod that left or came between two versions of a node; for all of both when the node itself is another, or was is nil.
func ChangedPods(was, is framework.NodeInfo, do func(p framework.PodInfo, node *v1.Node, sign int64)) {
	var old []framework.PodInfo
	now := is.GetPods()
	if was != nil {
		old = was.GetPods()
		if was.Node() == is.Node() {
			for len(old) > 0 && len(now) > 0 && old[0] == now[0] {
				old, now = old[1:], now[1:]
			}
			for len(old) > 0 && len(now) > 0 && old[len(old)-1] == now[len(now)-1] {
				old, now = old[:len(old)-1], now[:len(now)-1]
			}
		}
		for _, p := range old {
			do(p, was.Node(), -1)
		}
	}
	for _, p := range now {
		do(p, is.Node(), 1)
	}
}
