package interpodaffinity

import (
	"fmt"
	"maps"
	"slices"

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
	to = place.AppendString(to, p.Namespace)
	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		to = place.AppendString(to, key)
		to = place.AppendString(to, p.Labels[key])
	}
	to = append(to, 0xff)
	if p.Spec.Affinity == nil {
		return to, true
	}
	a := v1.Affinity{PodAffinity: p.Spec.Affinity.PodAffinity, PodAntiAffinity: p.Spec.Affinity.PodAntiAffinity}
	raw, err := a.Marshal()
	if err != nil {
		return to, false
	}
	if _, err := snapshot.NewPodInfo(p); err != nil { // a term that cannot be read: PreFilter says which
		return to, false
	}
	return append(to, raw...), true
}

// tally is what PreFilter and PreScore count, kept while nodes and Pods come and go.
type tally struct {
	Plugin   // with namespaces replaced by look
	of       *Plugin
	pod      *v1.Pod
	own      *snapshot.PodInfo
	table    *columns.Table
	looked   map[string]labels.Set // namespaces as they were when they counted
	standing standing
	pull     pull
	wanted   byKey // the same by label numbers
	unwanted byKey
	unwilled byKey
	weights  byKey
	entries  int64 // terms that weigh anything anywhere
	keys     []*columns.Labels
	names    []string // of keys
}

// byKey are numbers by topology key and the number of its value.
type byKey map[string]*column

type column struct {
	labels *columns.Labels
	n      []int64
	refs   []int64 // terms behind n; 0 terms are no entry
}

func (s *tally) column(of byKey, key string) *column {
	c := of[key]
	if c == nil {
		c = &column{labels: s.table.Labels(key)}
		of[key] = c
		if !slices.Contains(s.names, key) {
			s.names, s.keys = append(s.names, key), append(s.keys, c.labels)
		}
	}
	return c
}

// Keys are the topology keys of all terms met.
func (s *tally) Keys() []*columns.Labels { return s.keys }

// Look is the domain, or how often terms of each kind are met in one that is the row's alone.
func (s *tally) Look(to []byte, n int, row int32) []byte {
	l := s.keys[n]
	if !l.Alone(row) {
		return place.AppendDomain(to, l, row)
	}
	value := l.ID[row]
	to = append(to, 1)
	for _, b := range []byKey{s.wanted, s.unwanted, s.unwilled, s.weights} {
		var sum int64
		if c := b[s.names[n]]; c != nil && int(value) < len(c.n) {
			sum = c.n[value]
		}
		to = place.AppendInt(to, sum)
	}
	return to
}

func (c *column) add(value string, by, refs int64) (now, left int64) {
	id := c.labels.Number(value)
	for int(id) >= len(c.n) {
		c.n, c.refs = append(c.n, 0), append(c.refs, 0)
	}
	c.n[id] += by
	c.refs[id] += refs
	return c.n[id], c.refs[id]
}

// at is the number of the row's domain; false when the node has no such label.
func (c *column) at(row int32) (int64, bool) {
	id := c.labels.ID[row]
	if int(id) >= len(c.n) {
		return 0, id != 0
	}
	return c.n[id], id != 0
}

// Tally begins without any node.
func (pl *Plugin) Tally(p *v1.Pod, t *columns.Table) place.Tally {
	own, _ := snapshot.NewPodInfo(p) // Tallied saw that it can be read
	s := &tally{
		Plugin: *pl, of: pl, pod: p, own: own, table: t, looked: map[string]labels.Set{},
		standing: standing{own: own, wanted: counts{}, unwanted: counts{}, unwilled: counts{}}, pull: pull{},
		wanted: byKey{}, unwanted: byKey{}, unwilled: byKey{}, weights: byKey{},
	}
	s.Plugin.namespaces = s.look
	return s
}

// look finds a namespace's labels and remembers them.
func (s *tally) look(name string) labels.Set {
	l, known := s.looked[name]
	if !known {
		l = maps.Clone(s.of.namespaces(name))
		s.looked[name] = l
	}
	return l
}

// Holds tells whether the namespaces looked at have the labels they had.
func (s *tally) Holds() bool {
	for name, was := range s.looked {
		if !maps.Equal(was, s.of.namespaces(name)) {
			return false
		}
	}
	return true
}

// Move counts Pods that left out and Pods that came in.
func (s *tally) Move(was, is framework.NodeInfo) {
	place.ChangedPods(was, is, s.count)
}

func (s *tally) count(other framework.PodInfo, node *v1.Node, sign int64) {
	change := counts{}
	s.mind(change, other.GetRequiredAntiAffinityTerms(), meeting{s.pod, node, sign})
	s.apply(change, s.standing.unwilled, s.unwilled)
	clear(change)
	s.seek(change, s.own.GetRequiredAffinityTerms(), meeting{other.GetPod(), node, sign})
	s.apply(change, s.standing.wanted, s.wanted)
	clear(change)
	s.mind(change, s.own.GetRequiredAntiAffinityTerms(), meeting{other.GetPod(), node, sign})
	s.apply(change, s.standing.unwanted, s.unwanted)
	s.weighAll(other, node, sign)
}

func (s *tally) apply(change, to counts, numbers byKey) {
	for d, by := range change {
		if to[d] += by; to[d] == 0 {
			delete(to, d)
		}
		s.column(numbers, d.key).add(d.value, by, 0)
	}
}

// weighAll does for one Pod what PreScore does for all.
func (s *tally) weighAll(other framework.PodInfo, node *v1.Node, sign int64) {
	for _, t := range s.own.GetPreferredAffinityTerms() {
		s.weigh(&t.AffinityTerm, other.GetPod(), scale{node, int64(t.Weight), sign})
	}
	for _, t := range s.own.GetPreferredAntiAffinityTerms() {
		s.weigh(&t.AffinityTerm, other.GetPod(), scale{node, -int64(t.Weight), sign})
	}
	if s.hardWeight > 0 {
		for _, t := range other.GetRequiredAffinityTerms() {
			s.weigh(&t, s.pod, scale{node, s.hardWeight, sign})
		}
	}
	for _, t := range other.GetPreferredAffinityTerms() {
		s.weigh(&t.AffinityTerm, s.pod, scale{node, int64(t.Weight), sign})
	}
	for _, t := range other.GetPreferredAntiAffinityTerms() {
		s.weigh(&t.AffinityTerm, s.pod, scale{node, -int64(t.Weight), sign})
	}
}

// scale is where and how much a term weighs, and whether it comes or goes.
type scale struct {
	node *v1.Node
	by   int64
	sign int64
}

func (s *tally) weigh(t *framework.AffinityTerm, meant *v1.Pod, w scale) {
	value, ok := w.node.Labels[t.TopologyKey]
	if !ok || w.by == 0 || !s.matches(t, meant) {
		return
	}
	now, left := s.column(s.weights, t.TopologyKey).add(value, w.by*w.sign, w.sign)
	s.entries += w.sign
	if left > 0 {
		if s.pull[t.TopologyKey] == nil {
			s.pull[t.TopologyKey] = map[string]int64{}
		}
		s.pull[t.TopologyKey][value] = now
		return
	}
	delete(s.pull[t.TopologyKey], value)
	if len(s.pull[t.TopologyKey]) == 0 {
		delete(s.pull, t.TopologyKey)
	}
}

// PreFilter gives the sums to this Pod's cycle.
func (s *tally) PreFilter(state framework.CycleState, p *v1.Pod) *framework.Status {
	own, err := snapshot.NewPodInfo(p)
	if err != nil {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf("parsing pod: %v", err))
	}
	if len(own.GetRequiredAffinityTerms())+len(own.GetRequiredAntiAffinityTerms())+len(s.standing.unwilled) == 0 {
		return framework.NewStatus(framework.Skip)
	}
	mine := s.standing
	mine.own = own
	state.Write(filterKey, &mine)
	return nil
}

// PreScore gives the weights to this Pod's cycle.
func (s *tally) PreScore(state framework.CycleState, _ *v1.Pod, _ place.Feasible) *framework.Status {
	prefers := len(s.own.GetPreferredAffinityTerms())+len(s.own.GetPreferredAntiAffinityTerms()) > 0
	if s.ignorePreferred && !prefers || s.entries == 0 {
		return framework.NewStatus(framework.Skip)
	}
	state.Write(scoreKey, s.pull)
	return nil
}
