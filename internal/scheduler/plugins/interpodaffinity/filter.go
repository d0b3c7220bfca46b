package interpodaffinity

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// preFilterState is the counts of one cycle: those of the aggregate, and what AddPod and RemovePod
// changed.
type preFilterState struct {
	*aggregate
	entries [countKinds]int64 // domains with a count
	changes [countKinds]map[domain]int64
	more    []*topology // of changes, where the aggregate counted nothing

	nodes map[string]map[string][]framework.NodeInfo // by key and value: those of domains that were explained
}

// Clone copies what AddPod and RemovePod change.
func (s *preFilterState) Clone() framework.StateData {
	c := &preFilterState{aggregate: s.aggregate, entries: s.entries, more: slices.Clone(s.more)}
	for k := range s.changes {
		c.changes[k] = maps.Clone(s.changes[k])
	}
	return c
}

// add changes a count of the node's domain.
func (s *preFilterState) add(k countKind, key string, node *v1.Node, by int64) {
	value, has := node.Labels[key]
	if !has {
		return
	}
	t := findTopology(s.topologies, key)
	if t == nil {
		if t = findTopology(s.more, key); t == nil {
			t = &topology{key: key}
			s.more = append(s.more, t)
		}
	}
	if s.changes[k] == nil {
		s.changes[k] = map[domain]int64{}
	}
	d := domain{key, value}
	switch t.ofValue(k, value) + s.changes[k][d] {
	case 0:
		s.entries[k]++
	case -by:
		s.entries[k]--
	}
	s.changes[k][d] += by
}

// near reads the counts around a node.
func (s *preFilterState) near(node *v1.Node) *nodeCounts {
	return &nodeCounts{entries: &s.entries, more: s.more, of: func(k countKind, t *topology) (int64, bool) {
		value, has := node.Labels[t.key]
		if !has {
			return 0, false
		}
		n := t.ofValue(k, value)
		if len(s.changes[k]) > 0 {
			n += s.changes[k][domain{t.key, value}]
		}
		return n, true
	}}
}

// PreFilter counts by domain; a Pod is skipped that neither has required terms nor is matched by
// required anti-affinity of others.
func (pl *Plugin) PreFilter(_ context.Context, state framework.CycleState, p *v1.Pod,
	nodes []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	own, err := snapshot.NewPodInfo(p)
	if err != nil {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf("parsing pod: %v", err))
	}
	pods := framework.NodeInfo.GetPods
	if len(own.GetRequiredAffinityTerms())+len(own.GetRequiredAntiAffinityTerms()) == 0 {
		pods = framework.NodeInfo.GetPodsWithRequiredAntiAffinity // no others count
		if w := schedule.SnapshotOf(state); w != nil {
			nodes, _ = w.HavePodsWithRequiredAntiAffinityList() // a snapshot's list has no error
		}
	}
	s := pl.newAggregate(own, columns.RowsOf(nodes))
	for row, n := range nodes {
		for _, other := range pods(n) {
			s.addCounts(other, countedRow{n.Node(), int32(row), 1})
		}
	}
	return nil, s.PreFilter(state, p)
}

// PreFilterExtensions returns the plugin, which follows Pods that are added or removed in a dry
// run.
func (pl *Plugin) PreFilterExtensions() framework.PreFilterExtensions { return pl }

// AddPod counts a Pod in.
func (pl *Plugin) AddPod(_ context.Context, state framework.CycleState, _ *v1.Pod, other framework.PodInfo,
	n framework.NodeInfo) *framework.Status {
	return pl.updateCounts(state, other, n.Node(), 1)
}

// RemovePod counts a Pod out.
func (pl *Plugin) RemovePod(_ context.Context, state framework.CycleState, _ *v1.Pod, other framework.PodInfo,
	n framework.NodeInfo) *framework.Status {
	return pl.updateCounts(state, other, n.Node(), -1)
}

func (pl *Plugin) updateCounts(state framework.CycleState, other framework.PodInfo, node *v1.Node,
	by int64) *framework.Status {
	s, err := preFilterStateOf(state)
	if err != nil {
		return framework.AsStatus(err)
	}
	pl.eachCount(s.podInfo, other, func(k countKind, key string) { s.add(k, key, node, by) })
	return nil
}

func preFilterStateOf(state framework.CycleState) (*preFilterState, error) {
	v, err := state.Read(filterKey)
	if err != nil {
		return nil, fmt.Errorf("reading %q from the cycle state: %w", filterKey, err)
	}
	s, ok := v.(*preFilterState)
	if !ok {
		return nil, fmt.Errorf("%q in the cycle state is a %T", filterKey, v)
	}
	return s, nil
}

// Filter looks the node's domains up.
func (pl *Plugin) Filter(_ context.Context, state framework.CycleState, _ *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	s, err := preFilterStateOf(state)
	if err != nil {
		return framework.AsStatus(err)
	}
	return s.filter(s.near(n.Node()))
}

// nodeCounts reads the counts in the domains of one node, given as an object or by its row.
type nodeCounts struct {
	of      func(k countKind, t *topology) (n int64, has bool) // has: the node has the topology key
	entries *[countKinds]int64                                 // domains with a count anywhere
	more    []*topology                                        // beside those of the aggregate
}

// filter is the rule. Only missing affinity is unresolvable: Pods that anti-affinity keeps apart
// could be preempted.
func (s *aggregate) filter(near *nodeCounts) *framework.Status {
	switch {
	case s.unmetAffinity(near) >= 0:
		return s.affinityStatus
	case s.unmetAntiAffinity(near) >= 0:
		return s.antiAffinityStatus
	case s.existingAntiAffinityKey(near) != "":
		return s.existingAntiAffinityStatus
	}
	return nil
}

// unmetAffinity is the index of the first affinity term that the node does not meet; -1 when it
// meets all. The first Pod of a group whose terms match itself needs the topology keys alone.
func (s *aggregate) unmetAffinity(near *nodeCounts) int {
	missing := -1
	for i, t := range s.affinityTopologies {
		n, has := near.of(affinityCount, t)
		if !has {
			return i
		}
		if missing < 0 && n <= 0 {
			missing = i
		}
	}
	if missing >= 0 && near.entries[affinityCount] == 0 && s.matchesItself {
		return -1
	}
	return missing
}

// unmetAntiAffinity is the index of the first anti-affinity term that the node breaks; -1 when it
// breaks none.
func (s *aggregate) unmetAntiAffinity(near *nodeCounts) int {
	if near.entries[antiAffinityCount] == 0 {
		return -1
	}
	for i, t := range s.antiAffinityTopologies {
		if n, has := near.of(antiAffinityCount, t); has && n > 0 {
			return i
		}
	}
	return -1
}

// existingAntiAffinityKey is the topology key in whose domain of the node another Pod's
// anti-affinity keeps the Pod out, of several the first, so that equal results name the same; empty
// when there is none.
func (s *aggregate) existingAntiAffinityKey(near *nodeCounts) (first string) {
	if near.entries[existingAntiAffinityCount] == 0 {
		return ""
	}
	for _, list := range [...][]*topology{s.topologies, near.more} {
		for _, t := range list {
			if n, has := near.of(existingAntiAffinityCount, t); has && n > 0 && (first == "" || t.key < first) {
				first = t.key
			}
		}
	}
	return first
}
