package podtopologyspread

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

var _ schedule.AggregatingPlugin = (*Plugin)(nil)

// AppendAggregateKey is namespace, labels, constraints, and what decides which nodes are domains:
// selector, node affinity, tolerations. Default constraints rest on Services and controllers, which
// come and go: what they select is part of it, and Tally takes the same selector.
func (pl *Plugin) AppendAggregateKey(to []byte, p *v1.Pod) ([]byte, bool) {
	if len(p.Spec.TopologySpreadConstraints) == 0 {
		if len(pl.defaults) == 0 || pl.selectorOf == nil {
			return to, false
		}
		chosen := &chosenSelector{p, pl.selectorOf(p)}
		if chosen.Selector == nil || chosen.Empty() {
			return to, false
		}
		pl.lastSelector.Store(chosen)
		to = append(schedule.AppendString(to, chosen.String()), 0xff)
	}
	to = snapshot.AppendLabels(schedule.AppendString(to, p.Namespace), p.Labels)
	to = snapshot.AppendLabels(to, p.Spec.NodeSelector)
	for i := range p.Spec.TopologySpreadConstraints {
		to = appendConstraint(to, &p.Spec.TopologySpreadConstraints[i])
	}
	to = append(to, 0xff)
	for i := range p.Spec.Tolerations {
		t := &p.Spec.Tolerations[i]
		for _, text := range [...]string{t.Key, string(t.Operator), t.Value, string(t.Effect)} {
			to = schedule.AppendString(to, text)
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
	to = schedule.AppendString(schedule.AppendInt(to, int64(c.MaxSkew)), c.TopologyKey)
	to = snapshot.AppendSelector(schedule.AppendString(to, string(c.WhenUnsatisfiable)), c.LabelSelector)
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
	to = schedule.AppendString(schedule.AppendString(schedule.AppendInt(to, int64(least)), taints), affinity)
	for _, key := range c.MatchLabelKeys {
		to = schedule.AppendString(to, key)
	}
	return append(to, 0xff)
}

// chosenSelector is the selector that default constraints have for a Pod.
type chosenSelector struct {
	pod *v1.Pod
	labels.Selector
}

// aggregateConstraints gives the constraints that Tallied was about.
func (pl *Plugin) aggregateConstraints(p *v1.Pod, action v1.UnsatisfiableConstraintAction) ([]constraint, error) {
	chosen := pl.lastSelector.Load()
	if len(p.Spec.TopologySpreadConstraints) > 0 || chosen == nil || chosen.pod != p {
		return pl.constraints(p, action)
	}
	all, err := compile(pl.defaults, p.Labels, action)
	for i := range all {
		all[i].selector = chosen.Selector
	}
	return all, err
}

// aggregate is what PreFilter and PreScore count, kept while nodes and Pods come and go.
type aggregate struct {
	plugin                    *Plugin
	pod                       *v1.Pod
	required                  nodeaffinity.RequiredNodeAffinity
	table                     *columns.Table
	filterCounts, scoreCounts []constraintCounts
	keys                      []*columns.Labels // of hard, then of soft
	// nodes that lack a key are scored all the same: the system's default constraints
	allowsMissingKeys bool
	weights           []float64 // of soft, for the Pod that is being scored
	seen              []bool    // by number of a value, while domains are counted
	maxMatch          []int     // of hard: matching Pods a domain may have
	evaluator         columns.Evaluator
}

// constraintCounts are the matching Pods and the nodes by domain of one constraint.
type constraintCounts struct {
	constraint
	labels        *columns.Labels
	podsByDomain  []int // matching Pods, by number of the value
	nodesByDomain []int
	domainCounts
}

// NewAggregate begins without any node; nil when a constraint cannot be read: PreFilter says which.
func (pl *Plugin) NewAggregate(p *v1.Pod, t *columns.Table) schedule.Aggregate {
	s := &aggregate{plugin: pl, pod: p, required: nodeaffinity.GetRequiredNodeAffinity(p), table: t,
		allowsMissingKeys: pl.systemDefaulting && len(p.Spec.TopologySpreadConstraints) == 0}
	hard, err := pl.aggregateConstraints(p, v1.DoNotSchedule)
	if err != nil {
		return nil
	}
	soft, err := pl.aggregateConstraints(p, v1.ScheduleAnyway)
	if err != nil {
		return nil
	}
	of := func(all []constraint) (out []constraintCounts) {
		for _, c := range all {
			l := t.Labels(c.key)
			out = append(out,
				constraintCounts{constraint: c, labels: l, domainCounts: domainCounts{pods: map[string]int{},
					domainsByCount: map[int]int{}}})
			s.keys = append(s.keys, l)
		}
		return out
	}
	s.filterCounts, s.scoreCounts = of(hard), of(soft)
	s.evaluator = columns.Evaluator{Score: s.score, Filter: s.refuse}
	return s
}

// Valid always: the sums rest on nodes and their Pods alone.
func (*aggregate) Valid() bool { return true }

// UpdateRow follows a node, which may have become another domain or none.
func (s *aggregate) UpdateRow(_ int32, was, is framework.NodeInfo) {
	if was == nil || was.Node() != is.Node() {
		if was != nil {
			s.addNode(was.Node(), -1)
		}
		s.addNode(is.Node(), 1)
	}
	schedule.ChangedPods(was, is, func(p framework.PodInfo, node *v1.Node, sign int64) {
		other := p.GetPod()
		if other.DeletionTimestamp != nil || other.Namespace != s.pod.Namespace {
			return
		}
		s.eachDomain(node, func(c *constraintCounts, id int32) {
			if !c.selector.Empty() && c.selector.Matches(labels.Set(other.Labels)) {
				c.update(id, 0, int(sign))
			}
		})
	})
}

func (s *aggregate) addNode(node *v1.Node, by int) {
	s.eachDomain(node, func(c *constraintCounts, id int32) { c.update(id, by, 0) })
}

// eachDomain calls back for the constraints that the node counts for. Scoring by host counts the
// host's Pods whatever the constraint's policies say.
func (s *aggregate) eachDomain(node *v1.Node, do func(c *constraintCounts, id int32)) {
	for k, all := range [][]constraintCounts{s.filterCounts, s.scoreCounts} {
		soft := k == 1
		if !(soft && s.allowsMissingKeys) && !hasKeys(node, all) {
			continue
		}
		for i := range all {
			c := &all[i]
			if !(soft && c.key == v1.LabelHostname) && !c.includes(s.pod, node, s.required) {
				continue
			}
			id := c.labels.Number(node.Labels[c.key])
			if soft {
				id = c.domainOf(node)
			}
			for int(id) >= len(c.podsByDomain) {
				c.podsByDomain, c.nodesByDomain = append(c.podsByDomain, 0), append(c.nodesByDomain, 0)
			}
			do(c, id)
		}
	}
}

func hasKeys(node *v1.Node, all []constraintCounts) bool {
	for i := range all {
		if _, ok := node.Labels[all[i].key]; !ok {
			return false
		}
	}
	return true
}

// update changes how many nodes and matching Pods a domain has, and what follows for the least of
// any.
func (c *constraintCounts) update(id int32, nodes, pods int) {
	wasIn, was := c.nodesByDomain[id] > 0, c.podsByDomain[id]
	c.nodesByDomain[id] += nodes
	c.podsByDomain[id] += pods
	isIn, is := c.nodesByDomain[id] > 0, c.podsByDomain[id]
	if wasIn {
		if c.domainsByCount[was]--; c.domainsByCount[was] == 0 {
			delete(c.domainsByCount, was)
		}
		delete(c.pods, c.labels.Values[id])
	}
	if isIn {
		c.domainsByCount[is]++
		c.pods[c.labels.Values[id]] = is
	}
	switch {
	case isIn && (is < c.minMatch || len(c.pods) == 1):
		c.minMatch = is
	case wasIn && was == c.minMatch && c.domainsByCount[was] == 0:
		c.minMatch = 0
		for n := range c.domainsByCount {
			if c.domainsByCount[c.minMatch] == 0 || n < c.minMatch {
				c.minMatch = n
			}
		}
	}
}

// TopologyLabels are the topology keys.
func (s *aggregate) TopologyLabels() []*columns.Labels { return s.keys }

// AppendRowState is the domain, or what one has that is the row's alone. Of hosts that share a name
// each is scored by its own Pods.
func (s *aggregate) AppendRowState(to []byte, n int, row int32) []byte {
	soft := n >= len(s.filterCounts)
	var c *constraintCounts
	if soft {
		c = &s.scoreCounts[n-len(s.filterCounts)]
	} else {
		c = &s.filterCounts[n]
	}
	id := c.labels.Numbers[row]
	switch {
	case soft && c.key == v1.LabelHostname && id != 0:
		return schedule.AppendInt(append(to, 2), int64(s.matchingPods(c, id, row)))
	case !c.labels.Unique(row):
		return schedule.AppendDomain(to, c.labels, row)
	case int(id) >= len(c.nodesByDomain):
		return append(to, 1, 0, 0)
	}
	return schedule.AppendInt(schedule.AppendInt(append(to, 1), int64(c.nodesByDomain[id])), int64(c.podsByDomain[id]))
}

// PreFilter gives the counts to this Pod's cycle.
func (s *aggregate) PreFilter(state framework.CycleState, _ *v1.Pod) *framework.Status {
	if len(s.filterCounts) == 0 {
		return framework.NewStatus(framework.Skip)
	}
	note := &preFilterState{domains: make([]domainCounts, len(s.filterCounts))}
	for i := range s.filterCounts {
		note.constraints = append(note.constraints, s.filterCounts[i].constraint)
		note.domains[i] = s.filterCounts[i].domainCounts
	}
	state.Write(filterKey, note)
	return nil
}

// Evaluator compares every row's domains by number.
func (s *aggregate) Evaluator() *columns.Evaluator {
	s.maxMatch = s.maxMatch[:0]
	for i := range s.filterCounts {
		c := &s.filterCounts[i]
		most := int(c.maxSkew)
		if len(c.pods) >= int(c.minDomains) {
			most += c.minMatch
		}
		if c.selector.Matches(labels.Set(s.pod.Labels)) {
			most--
		}
		s.maxMatch = append(s.maxMatch, most)
	}
	return &s.evaluator
}

func (s *aggregate) refuse(rows []int32, no []*framework.Status) {
	for i, row := range rows {
		if no[i] == nil {
			no[i] = s.filterRow(row, s.maxMatch)
		}
	}
}

func (s *aggregate) filterRow(row int32, most []int) *framework.Status {
	for k := range s.filterCounts {
		c := &s.filterCounts[k]
		id := c.labels.Numbers[row]
		if id == 0 {
			return s.plugin.missingLabelStatus
		}
		there := 0
		if int(id) < len(c.podsByDomain) && c.nodesByDomain[id] > 0 {
			there = c.podsByDomain[id]
		}
		if there > most[k] {
			return s.plugin.skewStatus
		}
	}
	return nil
}
