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
		return pl.newAggregate(p, rows)
	}
}

// countKind is what is counted.
type countKind int

const (
	affinityCount             countKind = iota // Pods that all of the Pod's required affinity terms mean
	antiAffinityCount                          // Pods that a required anti-affinity term of the Pod means
	existingAntiAffinityCount                  // required anti-affinity terms of others that mean the Pod
	scoreCount                                 // what preferred terms, and others' required affinity, weigh
	countKinds
)

// aggregate is what PreFilter and PreScore count, kept while nodes and Pods come and go.
type aggregate struct {
	Plugin          // with namespaces replaced by look
	plugin          *Plugin
	pod             *v1.Pod
	podInfo         *snapshot.PodInfo
	table           *columns.Rows
	namespaceLabels map[string]labels.Set // namespaces as they were when they counted
	topologies      []*topology
	keys            []*columns.Labels // of over
	entries         [countKinds]int64 // domains with a number; of weights: terms that weigh anything anywhere
	columnEvaluator
}

// topology is the numbers of one key, by number of its value.
type topology struct {
	key    string
	labels *columns.Labels
	counts [countKinds][]int64
}

func (s *aggregate) topology(key string) *topology {
	for _, t := range s.topologies {
		if t.key == key {
			return t
		}
	}
	t := &topology{key: key, labels: s.table.Labels(key)}
	s.topologies, s.keys = append(s.topologies, t), append(s.keys, t.labels)
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
		sum, _ := t.at(countKind(k), row)
		to = schedule.AppendInt(to, sum)
	}
	return to
}

// at is the number of the row's domain; false when the node has no such label.
func (t *topology) at(k countKind, row int32) (int64, bool) {
	id := t.labels.Numbers[row]
	if int(id) >= len(t.counts[k]) {
		return 0, id != 0
	}
	return t.counts[k][id], id != 0
}

// countOf is the number of a domain.
func (s *aggregate) countOf(k countKind, d domain) int64 {
	for _, t := range s.topologies {
		if t.key == d.key {
			if id, known := t.labels.Find(d.value); known && int(id) < len(t.counts[k]) {
				return t.counts[k][id]
			}
		}
	}
	return 0
}

// newAggregate begins without any node; nil when a term cannot be read: PreFilter says which.
func (pl *Plugin) newAggregate(p *v1.Pod, t *columns.Rows) schedule.Aggregate {
	own, err := snapshot.NewPodInfo(p)
	if err != nil {
		return nil
	}
	s := &aggregate{Plugin: *pl, plugin: pl, pod: p, podInfo: own, table: t, namespaceLabels: map[string]labels.Set{}}
	s.Plugin.namespaces = s.labelsOfNamespace
	s.compile()
	return s
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

// countedRow is a node, its row while the columns show it as it is (else -1), and whether a Pod
// comes (1) or goes (-1).
type countedRow struct {
	node *v1.Node
	row  int32
	sign int64
}

// UpdateRow counts Pods that left out and Pods that came in.
func (s *aggregate) UpdateRow(row int32, was, is framework.NodeInfo) {
	schedule.ChangedPods(was, is, func(other framework.PodInfo, node *v1.Node, sign int64) {
		at := countedRow{node, -1, sign}
		if s.table.NodeObjects[row] == node {
			at.row = row
		}
		s.count(other, at)
	})
}

func (s *aggregate) count(other framework.PodInfo, at countedRow) {
	terms := other.GetRequiredAntiAffinityTerms()
	for i := range terms {
		if s.matches(&terms[i], s.pod) {
			s.add(existingAntiAffinityCount, terms[i].TopologyKey, at)
		}
	}
	terms = s.podInfo.GetRequiredAffinityTerms()
	if s.matchesAll(terms, other.GetPod()) {
		for i := range terms {
			s.add(affinityCount, terms[i].TopologyKey, at)
		}
	}
	terms = s.podInfo.GetRequiredAntiAffinityTerms()
	for i := range terms {
		if s.matches(&terms[i], other.GetPod()) {
			s.add(antiAffinityCount, terms[i].TopologyKey, at)
		}
	}
	s.addScores(other, at)
}

func (s *aggregate) add(k countKind, key string, at countedRow) {
	if n := s.domain(k, key, at); n != nil {
		was := *n
		*n += at.sign
		switch {
		case was == 0:
			s.entries[k]++
		case *n == 0:
			s.entries[k]--
		}
	}
}

// domain finds where the number of a node's domain stands; nil when the node has no such label.
func (s *aggregate) domain(k countKind, key string, at countedRow) *int64 {
	if at.row < 0 {
		if _, has := at.node.Labels[key]; !has {
			return nil
		}
	}
	t := s.topology(key)
	id := int32(0)
	if at.row >= 0 {
		if id = t.labels.Numbers[at.row]; id == 0 {
			return nil
		}
	} else {
		id = t.labels.Number(at.node.Labels[key])
	}
	for int(id) >= len(t.counts[k]) {
		t.counts[k] = append(t.counts[k], 0)
	}
	return &t.counts[k][id]
}

// addScores does for one Pod what PreScore does for all.
func (s *aggregate) addScores(other framework.PodInfo, at countedRow) {
	s.addTermScores(s.podInfo.GetPreferredAffinityTerms(), other.GetPod(), weightedRow{at, 1})
	s.addTermScores(s.podInfo.GetPreferredAntiAffinityTerms(), other.GetPod(), weightedRow{at, -1})
	if s.hardWeight > 0 {
		terms := other.GetRequiredAffinityTerms()
		for i := range terms {
			s.addTermScore(&terms[i], s.pod, weightedRow{at, s.hardWeight})
		}
	}
	s.addTermScores(other.GetPreferredAffinityTerms(), s.pod, weightedRow{at, 1})
	s.addTermScores(other.GetPreferredAntiAffinityTerms(), s.pod, weightedRow{at, -1})
}

// weightedRow is where a term weighs, and what.
type weightedRow struct {
	countedRow
	by int64
}

func (s *aggregate) addTermScores(terms []framework.WeightedAffinityTerm, meant *v1.Pod, w weightedRow) {
	for i := range terms {
		s.addTermScore(&terms[i].AffinityTerm, meant, weightedRow{w.countedRow, w.by * int64(terms[i].Weight)})
	}
}

func (s *aggregate) addTermScore(t *framework.AffinityTerm, meant *v1.Pod, w weightedRow) {
	if w.by == 0 || !s.matches(t, meant) {
		return
	}
	if n := s.domain(scoreCount, t.TopologyKey, w.countedRow); n != nil {
		*n += w.by * w.sign
		s.entries[scoreCount] += w.sign
	}
}

// PreFilter gives the sums to this Pod's cycle.
func (s *aggregate) PreFilter(state framework.CycleState, _ *v1.Pod) *framework.Status {
	if len(s.podInfo.GetRequiredAffinityTerms())+len(s.podInfo.GetRequiredAntiAffinityTerms()) == 0 &&
		s.entries[existingAntiAffinityCount] == 0 {
		return framework.NewStatus(framework.Skip)
	}
	of := func(k countKind) topologyCounts { return topologyCounts{aggregate: s, kind: k, total: s.entries[k]} }
	state.Write(filterKey, &preFilterState{podInfo: s.podInfo, affinityCounts: of(affinityCount),
		antiAffinityCounts: of(antiAffinityCount), existingAntiAffinityCounts: of(existingAntiAffinityCount)})
	return nil
}

// PreScore gives the weights to this Pod's cycle.
func (s *aggregate) PreScore(state framework.CycleState, _ *v1.Pod, _ schedule.Feasible) *framework.Status {
	prefers := len(s.podInfo.GetPreferredAffinityTerms())+len(s.podInfo.GetPreferredAntiAffinityTerms()) > 0
	if s.ignorePreferred && !prefers || s.entries[scoreCount] == 0 {
		return framework.NewStatus(framework.Skip)
	}
	state.Write(scoreKey, aggregateScores{s})
	return nil
}

// aggregateScores is the weights of a tally in a cycle's notes.
type aggregateScores struct{ *aggregate }

// Clone shares, as with pull.
func (w aggregateScores) Clone() framework.StateData { return w }

// scoreOf sums the weights of a node's domains.
func (w aggregateScores) scoreOf(node *v1.Node) (sum int64) {
	for _, t := range w.topologies {
		if value, has := node.Labels[t.key]; has {
			sum += w.countOf(scoreCount, domain{t.key, value})
		}
	}
	return sum
}
