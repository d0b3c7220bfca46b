package interpodaffinity

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

var _ place.Tallying = (*Plugin)(nil)

// Tallied is namespace, labels and terms.
func (pl *Plugin) Tallied(to []byte, p *v1.Pod) ([]byte, bool) {
	to = snapshot.AppendLabels(place.AppendString(to, p.Namespace), p.Labels)
	return snapshot.AppendTerms(to, p), true
}

// kind is what is counted.
type kind int

const (
	wanted   kind = iota // Pods that all of the Pod's required affinity terms mean
	unwanted             // Pods that a required anti-affinity term of the Pod means
	unwilled             // required anti-affinity terms of others that mean the Pod
	weights              // what preferred terms, and others' required affinity, weigh
	kinds
)

// tally is what PreFilter and PreScore count, kept while nodes and Pods come and go.
type tally struct {
	Plugin  // with namespaces replaced by look
	from    *Plugin
	pod     *v1.Pod
	own     *snapshot.PodInfo
	table   *columns.Table
	looked  map[string]labels.Set // namespaces as they were when they counted
	over    []*topology
	keys    []*columns.Labels // of over
	entries [kinds]int64      // domains with a number; of weights: terms that weigh anything anywhere
	opinion
}

// topology is the numbers of one key, by number of its value.
type topology struct {
	key    string
	labels *columns.Labels
	n      [kinds][]int64
}

func (s *tally) topology(key string) *topology {
	for _, t := range s.over {
		if t.key == key {
			return t
		}
	}
	t := &topology{key: key, labels: s.table.Labels(key)}
	s.over, s.keys = append(s.over, t), append(s.keys, t.labels)
	return t
}

// Keys are the topology keys of all terms met.
func (s *tally) Keys() []*columns.Labels { return s.keys }

// Look is the domain, or how often terms of each kind are met in one that is the row's alone.
func (s *tally) Look(to []byte, n int, row int32) []byte {
	t := s.over[n]
	if !t.labels.Alone(row) {
		return place.AppendDomain(to, t.labels, row)
	}
	to = append(to, 1)
	for k := range t.n {
		sum, _ := t.at(kind(k), row)
		to = place.AppendInt(to, sum)
	}
	return to
}

// at is the number of the row's domain; false when the node has no such label.
func (t *topology) at(k kind, row int32) (int64, bool) {
	id := t.labels.ID[row]
	if int(id) >= len(t.n[k]) {
		return 0, id != 0
	}
	return t.n[k][id], id != 0
}

// of is the number of a domain.
func (s *tally) of(k kind, d domain) int64 {
	for _, t := range s.over {
		if t.key == d.key {
			if id, known := t.labels.Find(d.value); known && int(id) < len(t.n[k]) {
				return t.n[k][id]
			}
		}
	}
	return 0
}

// Tally begins without any node; nil when a term cannot be read: PreFilter says which.
func (pl *Plugin) Tally(p *v1.Pod, t *columns.Table) place.Tally {
	own, err := snapshot.NewPodInfo(p)
	if err != nil {
		return nil
	}
	s := &tally{Plugin: *pl, from: pl, pod: p, own: own, table: t, looked: map[string]labels.Set{}}
	s.Plugin.namespaces = s.look
	s.compile()
	return s
}

// look finds a namespace's labels and remembers them.
func (s *tally) look(name string) labels.Set {
	l, known := s.looked[name]
	if !known {
		l = maps.Clone(s.from.namespaces(name))
		s.looked[name] = l
	}
	return l
}

// Holds tells whether the namespaces looked at have the labels they had.
func (s *tally) Holds() bool {
	for name, was := range s.looked {
		if !maps.Equal(was, s.from.namespaces(name)) {
			return false
		}
	}
	return true
}

// spot is a node, its row while the columns show it as it is (else -1), and whether a Pod comes (1) or goes (-1).
type spot struct {
	node *v1.Node
	row  int32
	sign int64
}

// Move counts Pods that left out and Pods that came in.
func (s *tally) Move(row int32, was, is framework.NodeInfo) {
	place.ChangedPods(was, is, func(other framework.PodInfo, node *v1.Node, sign int64) {
		at := spot{node, -1, sign}
		if s.table.Objects[row] == node {
			at.row = row
		}
		s.count(other, at)
	})
}

func (s *tally) count(other framework.PodInfo, at spot) {
	terms := other.GetRequiredAntiAffinityTerms()
	for i := range terms {
		if s.matches(&terms[i], s.pod) {
			s.add(unwilled, terms[i].TopologyKey, at)
		}
	}
	terms = s.own.GetRequiredAffinityTerms()
	if s.matchesAll(terms, other.GetPod()) {
		for i := range terms {
			s.add(wanted, terms[i].TopologyKey, at)
		}
	}
	terms = s.own.GetRequiredAntiAffinityTerms()
	for i := range terms {
		if s.matches(&terms[i], other.GetPod()) {
			s.add(unwanted, terms[i].TopologyKey, at)
		}
	}
	s.weighAll(other, at)
}

func (s *tally) add(k kind, key string, at spot) {
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
func (s *tally) domain(k kind, key string, at spot) *int64 {
	if at.row < 0 {
		if _, has := at.node.Labels[key]; !has {
			return nil
		}
	}
	t := s.topology(key)
	id := int32(0)
	if at.row >= 0 {
		if id = t.labels.ID[at.row]; id == 0 {
			return nil
		}
	} else {
		id = t.labels.Number(at.node.Labels[key])
	}
	for int(id) >= len(t.n[k]) {
		t.n[k] = append(t.n[k], 0)
	}
	return &t.n[k][id]
}

// weighAll does for one Pod what PreScore does for all.
func (s *tally) weighAll(other framework.PodInfo, at spot) {
	s.weigh(s.own.GetPreferredAffinityTerms(), other.GetPod(), scale{at, 1})
	s.weigh(s.own.GetPreferredAntiAffinityTerms(), other.GetPod(), scale{at, -1})
	if s.hardWeight > 0 {
		terms := other.GetRequiredAffinityTerms()
		for i := range terms {
			s.weighOne(&terms[i], s.pod, scale{at, s.hardWeight})
		}
	}
	s.weigh(other.GetPreferredAffinityTerms(), s.pod, scale{at, 1})
	s.weigh(other.GetPreferredAntiAffinityTerms(), s.pod, scale{at, -1})
}

// scale is where a term weighs, and what.
type scale struct {
	spot
	by int64
}

func (s *tally) weigh(terms []framework.WeightedAffinityTerm, meant *v1.Pod, w scale) {
	for i := range terms {
		s.weighOne(&terms[i].AffinityTerm, meant, scale{w.spot, w.by * int64(terms[i].Weight)})
	}
}

func (s *tally) weighOne(t *framework.AffinityTerm, meant *v1.Pod, w scale) {
	if w.by == 0 || !s.matches(t, meant) {
		return
	}
	if n := s.domain(weights, t.TopologyKey, w.spot); n != nil {
		*n += w.by * w.sign
		s.entries[weights] += w.sign
	}
}

// PreFilter gives the sums to this Pod's cycle.
func (s *tally) PreFilter(state framework.CycleState, _ *v1.Pod) *framework.Status {
	if len(s.own.GetRequiredAffinityTerms())+len(s.own.GetRequiredAntiAffinityTerms()) == 0 && s.entries[unwilled] == 0 {
		return framework.NewStatus(framework.Skip)
	}
	of := func(k kind) numbers { return numbers{kept: s, kind: k, left: s.entries[k]} }
	state.Write(filterKey, &standing{own: s.own, wanted: of(wanted), unwanted: of(unwanted), unwilled: of(unwilled)})
	return nil
}

// PreScore gives the weights to this Pod's cycle.
func (s *tally) PreScore(state framework.CycleState, _ *v1.Pod, _ place.Feasible) *framework.Status {
	prefers := len(s.own.GetPreferredAffinityTerms())+len(s.own.GetPreferredAntiAffinityTerms()) > 0
	if s.ignorePreferred && !prefers || s.entries[weights] == 0 {
		return framework.NewStatus(framework.Skip)
	}
	state.Write(scoreKey, weighed{s})
	return nil
}

// weighed is the weights of a tally in a cycle's notes.
type weighed struct{ *tally }

// Clone shares, as with pull.
func (w weighed) Clone() framework.StateData { return w }

// on sums the weights of a node's domains.
func (w weighed) on(node *v1.Node) (sum int64) {
	for _, t := range w.over {
		if value, has := node.Labels[t.key]; has {
			sum += w.of(weights, domain{t.key, value})
		}
	}
	return sum
}
