package podtopologyspread

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

var _ place.Tallying = (*Plugin)(nil)

// Tallied is namespace, labels, constraints, and what decides which nodes are domains: selector, node affinity, tolerations. Default constraints rest on Services and
// controllers, which come and go: what they select is part of it, and Tally takes the same selector.
func (pl *Plugin) Tallied(to []byte, p *v1.Pod) ([]byte, bool) {
	if len(p.Spec.TopologySpreadConstraints) == 0 {
		if len(pl.defaults) == 0 || pl.selectorOf == nil {
			return to, false
		}
		chosen := &choice{p, pl.selectorOf(p)}
		if chosen.Selector == nil || chosen.Empty() {
			return to, false
		}
		pl.chosen.Store(chosen)
		to = append(place.AppendString(to, chosen.String()), 0xff)
	}
	to = snapshot.AppendLabels(place.AppendString(to, p.Namespace), p.Labels)
	to = snapshot.AppendLabels(to, p.Spec.NodeSelector)
	for i := range p.Spec.TopologySpreadConstraints {
		to = appendConstraint(to, &p.Spec.TopologySpreadConstraints[i])
	}
	to = append(to, 0xff)
	for i := range p.Spec.Tolerations {
		t := &p.Spec.Tolerations[i]
		for _, text := range [...]string{t.Key, string(t.Operator), t.Value, string(t.Effect)} {
			to = place.AppendString(to, text)
		}
	}
	to = append(to, 0xff)
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		raw, err := a.NodeAffinity.Marshal()
		return append(to, raw...), err == nil
	}
	return to, true
}

func appendConstraint(to []byte, c *v1.TopologySpreadConstraint) []byte {
	to = place.AppendString(place.AppendInt(to, int64(c.MaxSkew)), c.TopologyKey)
	to = snapshot.AppendSelector(place.AppendString(to, string(c.WhenUnsatisfiable)), c.LabelSelector)
	least, taints, affinity := int32(-1), "", ""
	if c.MinDomains != nil {
		least = *c.MinDomains
	}
	if c.NodeTaintsPolicy != nil {
		taints = string(*c.NodeTaintsPolicy)
	}
	if c.NodeAffinityPolicy != nil {
		affinity = string(*c.NodeAffinityPolicy)
	}
	to = place.AppendString(place.AppendString(place.AppendInt(to, int64(least)), taints), affinity)
	for _, key := range c.MatchLabelKeys {
		to = place.AppendString(to, key)
	}
	return append(to, 0xff)
}

// choice is the selector that default constraints have for a Pod.
type choice struct {
	pod *v1.Pod
	labels.Selector
}

// tallied gives the constraints that Tallied was about.
func (pl *Plugin) tallied(p *v1.Pod, action v1.UnsatisfiableConstraintAction) ([]constraint, error) {
	chosen := pl.chosen.Load()
	if len(p.Spec.TopologySpreadConstraints) > 0 || chosen == nil || chosen.pod != p {
		return pl.constraints(p, action)
	}
	all, err := compile(pl.defaults, p.Labels, action)
	for i := range all {
		all[i].selector = chosen.Selector
	}
	return all, err
}

// tally is what PreFilter and PreScore count, kept while nodes and Pods come and go.
type tally struct {
	pl         *Plugin
	pod        *v1.Pod
	required   nodeaffinity.RequiredNodeAffinity
	table      *columns.Table
	hard, soft []sums
	keys       []*columns.Labels // of hard, then of soft
	lenient    bool              // nodes that lack a key are scored all the same: the system's default constraints
	weights    []float64         // of soft, for the Pod that is being scored
	seen       []bool            // by number of a value, while domains are counted
	most       []int             // of hard: matching Pods a domain may have
	said       columns.Opinion
}

// sums are the matching Pods and the nodes by domain of one constraint.
type sums struct {
	constraint
	labels *columns.Labels
	there  []int // matching Pods, by number of the value
	nodes  []int
	domains
}

// Tally begins without any node; nil when a constraint cannot be read: PreFilter says which.
func (pl *Plugin) Tally(p *v1.Pod, t *columns.Table) place.Tally {
	s := &tally{pl: pl, pod: p, required: nodeaffinity.GetRequiredNodeAffinity(p), table: t, lenient: pl.system && len(p.Spec.TopologySpreadConstraints) == 0}
	hard, err := pl.tallied(p, v1.DoNotSchedule)
	if err != nil {
		return nil
	}
	soft, err := pl.tallied(p, v1.ScheduleAnyway)
	if err != nil {
		return nil
	}
	of := func(all []constraint) (out []sums) {
		for _, c := range all {
			l := t.Labels(c.key)
			out = append(out, sums{constraint: c, labels: l, domains: domains{pods: map[string]int{}, with: map[int]int{}}})
			s.keys = append(s.keys, l)
		}
		return out
	}
	s.hard, s.soft = of(hard), of(soft)
	s.said = columns.Opinion{Score: s.score, Refuse: s.refuse}
	return s
}

// Holds always: the sums rest on nodes and their Pods alone.
func (*tally) Holds() bool { return true }

// Move follows a node, which may have become another domain or none.
func (s *tally) Move(_ int32, was, is framework.NodeInfo) {
	if was == nil || was.Node() != is.Node() {
		if was != nil {
			s.place(was.Node(), -1)
		}
		s.place(is.Node(), 1)
	}
	place.ChangedPods(was, is, func(p framework.PodInfo, node *v1.Node, sign int64) {
		other := p.GetPod()
		if other.DeletionTimestamp != nil || other.Namespace != s.pod.Namespace {
			return
		}
		s.each(node, func(c *sums, id int32) {
			if !c.selector.Empty() && c.selector.Matches(labels.Set(other.Labels)) {
				c.shift(id, 0, int(sign))
			}
		})
	})
}

func (s *tally) place(node *v1.Node, by int) {
	s.each(node, func(c *sums, id int32) { c.shift(id, by, 0) })
}

// each calls back for the constraints that the node counts for. Scoring by host counts the host's Pods whatever the constraint's policies say.
func (s *tally) each(node *v1.Node, do func(c *sums, id int32)) {
	for k, all := range [][]sums{s.hard, s.soft} {
		soft := k == 1
		if !(soft && s.lenient) && !hasKeys(node, all) {
			continue
		}
		for i := range all {
			c := &all[i]
			if !(soft && c.key == v1.LabelHostname) && !c.includes(s.pod, node, s.required) {
				continue
			}
			id := c.labels.Number(node.Labels[c.key])
			if soft {
				id = c.domain(node)
			}
			for int(id) >= len(c.there) {
				c.there, c.nodes = append(c.there, 0), append(c.nodes, 0)
			}
			do(c, id)
		}
	}
}

func hasKeys(node *v1.Node, all []sums) bool {
	for i := range all {
		if _, ok := node.Labels[all[i].key]; !ok {
			return false
		}
	}
	return true
}

// shift changes how many nodes and matching Pods a domain has, and what follows for the least of any.
func (c *sums) shift(id int32, nodes, pods int) {
	wasIn, was := c.nodes[id] > 0, c.there[id]
	c.nodes[id] += nodes
	c.there[id] += pods
	isIn, is := c.nodes[id] > 0, c.there[id]
	if wasIn {
		if c.with[was]--; c.with[was] == 0 {
			delete(c.with, was)
		}
		delete(c.pods, c.labels.Values[id])
	}
	if isIn {
		c.with[is]++
		c.pods[c.labels.Values[id]] = is
	}
	switch {
	case isIn && (is < c.least || len(c.pods) == 1):
		c.least = is
	case wasIn && was == c.least && c.with[was] == 0:
		c.least = 0
		for n := range c.with {
			if c.with[c.least] == 0 || n < c.least {
				c.least = n
			}
		}
	}
}

// Keys are the topology keys.
func (s *tally) Keys() []*columns.Labels { return s.keys }

// Look is the domain, or what one has that is the row's alone. Of hosts that share a name each is scored by its own Pods.
func (s *tally) Look(to []byte, n int, row int32) []byte {
	soft := n >= len(s.hard)
	var c *sums
	if soft {
		c = &s.soft[n-len(s.hard)]
	} else {
		c = &s.hard[n]
	}
	id := c.labels.ID[row]
	switch {
	case soft && c.key == v1.LabelHostname && id != 0:
		return place.AppendInt(append(to, 2), int64(s.matching(c, id, row)))
	case !c.labels.Alone(row):
		return place.AppendDomain(to, c.labels, row)
	case int(id) >= len(c.nodes):
		return append(to, 1, 0, 0)
	}
	return place.AppendInt(place.AppendInt(append(to, 1), int64(c.nodes[id])), int64(c.there[id]))
}

// PreFilter gives the counts to this Pod's cycle.
func (s *tally) PreFilter(state framework.CycleState, _ *v1.Pod) *framework.Status {
	if len(s.hard) == 0 {
		return framework.NewStatus(framework.Skip)
	}
	note := &spread{domains: make([]domains, len(s.hard))}
	for i := range s.hard {
		note.constraints = append(note.constraints, s.hard[i].constraint)
		note.domains[i] = s.hard[i].domains
	}
	state.Write(filterKey, note)
	return nil
}

// Opinion compares every row's domains by number.
func (s *tally) Opinion() *columns.Opinion {
	s.most = s.most[:0]
	for i := range s.hard {
		c := &s.hard[i]
		most := int(c.maxSkew)
		if len(c.pods) >= int(c.minDomains) {
			most += c.least
		}
		if c.selector.Matches(labels.Set(s.pod.Labels)) {
			most--
		}
		s.most = append(s.most, most)
	}
	return &s.said
}

func (s *tally) refuse(rows []int32, no []*framework.Status) {
	for i, row := range rows {
		if no[i] == nil {
			no[i] = s.judge(row, s.most)
		}
	}
}

func (s *tally) judge(row int32, most []int) *framework.Status {
	for k := range s.hard {
		c := &s.hard[k]
		id := c.labels.ID[row]
		if id == 0 {
			return s.pl.unlabelled
		}
		there := 0
		if int(id) < len(c.there) && c.nodes[id] > 0 {
			there = c.there[id]
		}
		if there > most[k] {
			return s.pl.skewed
		}
	}
	return nil
}
