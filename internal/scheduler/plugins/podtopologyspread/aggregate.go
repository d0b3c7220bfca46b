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
// come and go: what they select is part of it, and the aggregate takes the same selector.
func (pl *Plugin) AppendAggregateKey(to []byte, p *v1.Pod) ([]byte, schedule.NewAggregate) {
	var selector labels.Selector
	if len(p.Spec.TopologySpreadConstraints) == 0 {
		if selector = pl.defaultSelector(p); selector == nil {
			return to, nil
		}
		to = append(schedule.AppendString(to, selector.String()), 0xff)
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
		if err != nil {
			return to, nil
		}
		to = append(to, raw...)
	}
	return to, func(rows *columns.Rows) schedule.Aggregate {
		hard, err := pl.constraintsWith(p, selector, v1.DoNotSchedule)
		if err != nil {
			return nil // PreFilter says it
		}
		soft, err := pl.constraintsWith(p, selector, v1.ScheduleAnyway)
		if err != nil {
			return nil // PreScore says it
		}
		return pl.newAggregate(p, rows, hard, soft)
	}
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

// aggregate is what the plugin counts for Pods of one shape: PreFilter, PreScore and, row by row,
// Filter and Score answer from it. The plain path makes one for one Pod over all nodes; the
// scheduler's cache keeps it while nodes and Pods come and go.
type aggregate struct {
	plugin                    *Plugin
	pod                       *v1.Pod
	required                  nodeaffinity.RequiredNodeAffinity
	rows                      *columns.Rows
	filterCounts, scoreCounts []constraintCounts
	keys                      []*columns.Labels // of filterCounts, then of scoreCounts
	// nodes that lack a key are scored all the same: the system's default constraints
	allowsMissingKeys bool
	scores            *preScoreState // of the Pod that is being scored
	seen              []bool         // by number of a value, while domains are counted
	maxMatch          []int          // of filterCounts: matching Pods a domain may have
	evaluator         columns.Evaluator
}

// newAggregate begins without any node. hard constraints filter, soft ones score.
func (pl *Plugin) newAggregate(p *v1.Pod, rows *columns.Rows, hard, soft []constraint) *aggregate {
	s := &aggregate{plugin: pl, pod: p, required: nodeaffinity.GetRequiredNodeAffinity(p), rows: rows,
		allowsMissingKeys: pl.systemDefaulting && len(p.Spec.TopologySpreadConstraints) == 0}
	for _, c := range hard {
		s.filterCounts = append(s.filterCounts,
			constraintCounts{constraint: c, labels: rows.Labels(c.key), domainCounts: newDomainCounts()})
		s.keys = append(s.keys, rows.Labels(c.key))
	}
	for _, c := range soft {
		s.scoreCounts = append(s.scoreCounts, constraintCounts{constraint: c, labels: rows.Labels(c.key)})
		s.keys = append(s.keys, rows.Labels(c.key))
	}
	s.evaluator = columns.Evaluator{Score: s.scoreRows, Filter: s.filterRows}
	return s
}

// newAggregateOver counts all nodes of a list.
func (pl *Plugin) newAggregateOver(nodes []framework.NodeInfo, p *v1.Pod, hard, soft []constraint) *aggregate {
	s := pl.newAggregate(p, columns.RowsOf(nodes), hard, soft)
	for row, n := range nodes {
		s.UpdateRow(int32(row), nil, n)
	}
	return s
}

// Valid always: the sums rest on nodes and their Pods alone.
func (*aggregate) Valid() bool { return true }

// UpdateRow follows a node, which may have become another domain or none.
func (s *aggregate) UpdateRow(_ int32, was, is framework.NodeInfo) {
	if was == nil || was.Node() != is.Node() {
		if was != nil {
			s.addNode(was, -1)
		}
		s.addNode(is, 1)
		return
	}
	schedule.ChangedPods(was, is, func(other framework.PodInfo, node *v1.Node, sign int64) {
		s.eachDomain(node, func(c *constraintCounts, id int32) {
			if c.countsPod(other.GetPod(), s.pod.Namespace) {
				c.update(id, 0, int(sign))
			}
		})
	})
}

func (s *aggregate) addNode(n framework.NodeInfo, sign int) {
	s.eachDomain(n.Node(), func(c *constraintCounts, id int32) {
		c.update(id, sign, sign*c.count(n.GetPods(), s.pod.Namespace))
	})
}

// eachDomain calls do for the constraints that the node counts for. Scoring by host counts the
// host's Pods whatever the constraint's policies say.
func (s *aggregate) eachDomain(node *v1.Node, do func(c *constraintCounts, id int32)) {
	if hasKeys(node, s.filterCounts) {
		for i := range s.filterCounts {
			if c := &s.filterCounts[i]; c.includes(s.pod, node, s.required) {
				do(c, c.labels.Number(node.Labels[c.key]))
			}
		}
	}
	if s.allowsMissingKeys || hasKeys(node, s.scoreCounts) {
		for i := range s.scoreCounts {
			if c := &s.scoreCounts[i]; c.key == v1.LabelHostname || c.includes(s.pod, node, s.required) {
				do(c, c.scoringDomain(node))
			}
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
		s.maxMatch = append(s.maxMatch, int(c.maxSkew)-c.skewOfEmptyDomain(&c.constraint, s.pod))
	}
	return &s.evaluator
}

func (s *aggregate) filterRows(rows []int32, no []*framework.Status) {
	row := int32(0)
	matchingPods := func(i int) (n int, has bool) {
		c := &s.filterCounts[i]
		id := c.labels.Numbers[row]
		if int(id) >= len(c.nodesByDomain) || c.nodesByDomain[id] == 0 {
			return 0, id != 0
		}
		return c.podsByDomain[id], true
	}
	for k := range rows {
		if row = rows[k]; no[k] == nil {
			no[k] = s.plugin.filter(s.maxMatch, matchingPods)
		}
	}
}
