package interpodaffinity

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

var _ schedule.AggregatingPlugin = (*Plugin)(nil)

// AppendAggregateKey is namespace, labels and terms.
func (pl *Plugin) AppendAggregateKey(to []byte, p *v1.Pod) ([]byte, schedule.NewAggregate) {
	to = snapshot.AppendLabels(schedule.AppendString(to, p.Namespace), p.Labels)
	return snapshot.AppendTerms(to, p), func(rows *columns.Rows) schedule.Aggregate {
		own, err := snapshot.NewPodInfo(p)
		if err != nil {
			return nil // PreFilter says which term cannot be read
		}
		return pl.newAggregate(own, rows)
	}
}

// aggregate is what the plugin counts for Pods of one shape: PreFilter, PreScore, Filter and Score
// answer from it. The plain path makes one for one Pod over the nodes that matter to it; the
// scheduler's cache keeps it while nodes and Pods come and go.
type aggregate struct {
	Plugin          // with namespaces replaced by labelsOfNamespace
	plugin          *Plugin
	podInfo         *snapshot.PodInfo
	rows            *columns.Rows
	namespaceLabels map[string]labels.Set // namespaces as they were when they counted
	topologies      []*topology           // keys of the Pod's required affinity and of whatever was counted
	keys            []*columns.Labels     // of topologies
	entries         [countKinds]int64     // domains with a count; of scoreCount: terms that weigh anything anywhere
	evaluator       columns.Evaluator

	affinityTopologies     []*topology // of the Pod's required affinity terms, in their order
	antiAffinityTopologies []*topology // of its anti-affinity terms
	matchesItself          bool        // the affinity terms match the Pod itself
}

// newAggregate begins without any node.
func (pl *Plugin) newAggregate(own *snapshot.PodInfo, rows *columns.Rows) *aggregate {
	s := &aggregate{Plugin: *pl, plugin: pl, podInfo: own, rows: rows, namespaceLabels: map[string]labels.Set{}}
	s.Plugin.namespaces = s.labelsOfNamespace
	terms := own.GetRequiredAffinityTerms()
	s.matchesItself = s.matchesAll(terms, own.GetPod())
	for i := range terms {
		s.affinityTopologies = append(s.affinityTopologies, s.topology(terms[i].TopologyKey))
	}
	for _, term := range own.GetRequiredAntiAffinityTerms() {
		s.antiAffinityTopologies = append(s.antiAffinityTopologies, s.findOrMake(term.TopologyKey))
	}
	s.evaluator = columns.Evaluator{Filter: s.filterRows, Score: s.scoreRows}
	return s
}

func findTopology(list []*topology, key string) *topology {
	for _, t := range list {
		if t.key == key {
			return t
		}
	}
	return nil
}

// findOrMake finds or makes the topology of a key; rows are not distinguished by a new one.
func (s *aggregate) findOrMake(key string) *topology {
	if t := findTopology(s.topologies, key); t != nil {
		return t
	}
	if t := findTopology(s.antiAffinityTopologies, key); t != nil {
		return t
	}
	return &topology{key: key, labels: s.rows.Labels(key)}
}

// topology finds or makes the topology of a key that something is counted by, or that the Pod's
// affinity needs: rows are distinguished by it from now on.
func (s *aggregate) topology(key string) *topology {
	t := findTopology(s.topologies, key)
	if t == nil {
		t = s.findOrMake(key)
		s.topologies, s.keys = append(s.topologies, t), append(s.keys, t.labels)
	}
	return t
}

// TopologyLabels are the topology keys of all terms met.
func (s *aggregate) TopologyLabels() []*columns.Labels { return s.keys }

// AppendRowState is the domain, or how often terms of each kind are met in one that is the row's
// alone.
func (s *aggregate) AppendRowState(to []byte, n int, row int32) []byte {
	t := s.topologies[n]
	if !t.labels.Unique(row) {
		return schedule.AppendDomain(to, t.labels, row)
	}
	to = append(to, 1)
	for k := range t.counts {
		sum, _ := t.ofRow(countKind(k), row)
		to = schedule.AppendInt(to, sum)
	}
	return to
}

// labelsOfNamespace finds a namespace's labels and remembers them.
func (s *aggregate) labelsOfNamespace(name string) labels.Set {
	l, known := s.namespaceLabels[name]
	if !known {
		l = maps.Clone(s.plugin.namespaces(name))
		s.namespaceLabels[name] = l
	}
	return l
}

// Valid tells whether the namespaces looked at have the labels they had.
func (s *aggregate) Valid() bool {
	for name, was := range s.namespaceLabels {
		if !maps.Equal(was, s.plugin.namespaces(name)) {
			return false
		}
	}
	return true
}

// UpdateRow counts Pods that left out and Pods that came in.
func (s *aggregate) UpdateRow(row int32, was, is framework.NodeInfo) {
	schedule.ChangedPods(was, is, func(other framework.PodInfo, node *v1.Node, sign int64) {
		at := countedRow{node, -1, sign}
		if s.rows.NodeObjects[row] == node {
			at.row = row
		}
		s.addCounts(other, at)
		s.addScores(other, at)
	})
}

// addCounts counts one Pod for PreFilter and Filter.
func (s *aggregate) addCounts(other framework.PodInfo, at countedRow) {
	s.eachCount(s.podInfo, other, func(k countKind, key string) {
		n := s.domain(k, key, at)
		if n == nil {
			return
		}
		was := *n
		*n += at.sign
		switch {
		case was == 0:
			s.entries[k]++
		case *n == 0:
			s.entries[k]--
		}
	})
}

// addScores counts one Pod for PreScore and Score.
func (s *aggregate) addScores(other framework.PodInfo, at countedRow) {
	s.eachScore(s.podInfo, other, func(key string, weight int64) {
		if n := s.domain(scoreCount, key, at); n != nil {
			*n += weight * at.sign
			s.entries[scoreCount] += at.sign
		}
	})
}

// domain is where the count of a node's domain stands; nil when the node has no such label.
func (s *aggregate) domain(k countKind, key string, at countedRow) *int64 {
	if at.row < 0 {
		if _, has := at.node.Labels[key]; !has {
			return nil
		}
	}
	return s.topology(key).domain(k, at)
}

// PreFilter gives the counts to this Pod's cycle.
func (s *aggregate) PreFilter(state framework.CycleState, _ *v1.Pod) *framework.Status {
	if len(s.affinityTopologies)+len(s.antiAffinityTopologies) == 0 && s.entries[existingAntiAffinityCount] == 0 {
		return framework.NewStatus(framework.Skip)
	}
	state.Write(filterKey, &preFilterState{aggregate: s, entries: s.entries})
	return nil
}

// PreScore gives the weights to this Pod's cycle.
func (s *aggregate) PreScore(state framework.CycleState, _ *v1.Pod, _ schedule.Feasible) *framework.Status {
	if s.ignorePreferred && !prefers(s.podInfo) || s.entries[scoreCount] == 0 {
		return framework.NewStatus(framework.Skip)
	}
	state.Write(scoreKey, preScoreState{s})
	return nil
}

// Evaluator looks every row's domains up by number.
func (s *aggregate) Evaluator() *columns.Evaluator { return &s.evaluator }

func (s *aggregate) filterRows(rows []int32, no []*framework.Status) {
	row := int32(0)
	near := nodeCounts{entries: &s.entries,
		of: func(k countKind, t *topology) (int64, bool) { return t.ofRow(k, row) }}
	for i := range rows {
		if row = rows[i]; no[i] == nil {
			no[i] = s.filter(&near)
		}
	}
}

func (s *aggregate) scoreRows(rows []int32, raw []int64) {
	for _, t := range s.topologies {
		if len(t.counts[scoreCount]) == 0 {
			continue
		}
		for i, row := range rows {
			if n, ok := t.ofRow(scoreCount, row); ok {
				raw[i] += n
			}
		}
	}
}
