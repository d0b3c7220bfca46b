package schedule

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// AggregatingPlugin is a plugin whose statuses come from sums over all nodes. It keeps them for
// Pods that read the same sums, and changes them as nodes change.
type AggregatingPlugin interface {
	framework.Plugin
	// AppendAggregateKey appends what the plugin reads of the Pod, which Pods share that share the
	// sums, and returns what makes such sums; nil: for this Pod the plugin is called anew each
	// time.
	AppendAggregateKey(to []byte, p *v1.Pod) ([]byte, NewAggregate)
}

// NewAggregate makes the sums for the Pod that it was returned for, over no node yet; nil: the
// plugin is called anew each time after all. It is called at once or not at all.
type NewAggregate func(rows *columns.Rows) Aggregate

// Aggregate is the sums of an aggregating plugin.
type Aggregate interface {
	// Valid tells whether what the aggregates rest on besides nodes is as it was; if not they are
	// begun anew.
	Valid() bool
	// UpdateRow takes out what a row's node added, and adds what it adds now; was is nil at first.
	// The columns show it as it is now.
	UpdateRow(row int32, was, is framework.NodeInfo)
	// PreFilter does what the plugin's PreFilter does.
	PreFilter(state framework.CycleState, p *v1.Pod) *framework.Status
	// PreScore does what the plugin's PreScore does.
	PreScore(state framework.CycleState, p *v1.Pod, feasible Feasible) *framework.Status
	// Evaluator filters and scores rows by the sums as they are, rows with equal row states
	// equally.
	Evaluator() *columns.Evaluator
	// TopologyLabels are the labels by whose values sums are kept. There may be more of them later,
	// at the end.
	TopologyLabels() []*columns.Labels
	// AppendRowState appends what the plugin sees of a row by the nth key: the domain, or the sums
	// of one that is the row's alone. It changes with the row's node and the keys' columns only.
	AppendRowState(to []byte, n int, row int32) []byte
}

// Feasible are the rows in the running.
type Feasible struct {
	Rows  []int32
	times []int32 // for how many a row stands; nil: each for itself
}

// Times tells for how many rows the nth stands: those that look like it to an aggregating plugin.
func (f *Feasible) Times(n int) int {
	if f.times == nil {
		return 1
	}
	return int(f.times[n])
}

// maxAggregates bounds the cached aggregates: each remembers a node by row.
const maxAggregates = 256

// cachedAggregate is an aggregate and the nodes it is over.
type cachedAggregate struct {
	Aggregate
	changes    ChangeSource // nil: it does not
	plugin     string
	nodes      []framework.NodeInfo
	generation int64
	used       int64
	evaluator  *columns.Evaluator // for the cycle under way
}

// aggregateOf finds or begins the sums of a plugin for the Pod, brought up to the snapshot; nil
// when it keeps none.
func (m *EquivalenceCache) aggregateOf(in *Input, plugin AggregatingPlugin) *cachedAggregate {
	m.key = append(AppendString(m.key[:0], plugin.Name()), 0xff)
	key, newAggregate := plugin.AppendAggregateKey(m.key, in.Pod)
	if m.key = key; newAggregate == nil {
		return nil
	}
	if m.aggregatesByKey == nil {
		m.aggregatesByKey = map[aggregateKey]*cachedAggregate{}
	}
	k := m.aggregatesByKey[aggregateKey{in.Plugins, string(key)}]
	if k == nil || !k.Valid() {
		switch {
		case k != nil:
			m.removeNodeGroups(nil, k)
		case len(m.aggregatesByKey) >= maxAggregates:
			m.evictAggregate()
		}
		aggregates := newAggregate(&m.Table.Rows)
		if aggregates == nil {
			return nil
		}
		k = &cachedAggregate{Aggregate: aggregates, plugin: plugin.Name(),
			nodes: make([]framework.NodeInfo, m.Table.Len())}
		k.changes, _ = aggregates.(ChangeSource)
		m.aggregatesByKey[aggregateKey{in.Plugins, string(key)}] = k
	}
	k.used = m.clock
	if k.generation == in.Snapshot.Generation() {
		return k
	}
	for _, row := range m.changedRows(in, k.generation) {
		if was, is := k.nodes[row], m.Table.Nodes[row]; was != is {
			k.UpdateRow(row, was, is)
			k.nodes[row] = is
		}
	}
	k.generation = in.Snapshot.Generation()
	return k
}

// aggregateKey is what aggregates are shared by: the profile's plugins, and what the aggregating
// plugin reads of a Pod.
type aggregateKey struct {
	plugins *PluginSet
	shape   string
}

// evictAggregate drops the aggregate that was not used for the longest time, with the node groups
// built on it.
func (m *EquivalenceCache) evictAggregate() {
	var oldest aggregateKey
	turn := m.clock + 1
	for at, k := range m.aggregatesByKey {
		if k.used < turn {
			oldest, turn = at, k.used
		}
	}
	m.removeNodeGroups(nil, m.aggregatesByKey[oldest])
	delete(m.aggregatesByKey, oldest)
}

// ChangedPods calls back for each Pod that left or came between two versions of a node; for all of
// both when the node itself is another, or was is nil.
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
