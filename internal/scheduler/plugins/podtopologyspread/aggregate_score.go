package podtopologyspread

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// domainOf is the number of the node's domain: 0 for none, which is also that of an empty value.
func (c *constraintCounts) domainOf(node *v1.Node) int32 {
	value := node.Labels[c.key]
	if value == "" {
		return 0
	}
	return c.labels.Number(value)
}

// domainOfRow is the domain of a row, and whether the node has the key at all.
func (c *constraintCounts) domainOfRow(row int32) (id int32, has bool) {
	id = c.labels.Numbers[row]
	if id != 0 && c.labels.Values[id] == "" {
		return 0, true
	}
	return id, id != 0
}

// PreScore weighs the constraints by how many domains the feasible rows are in, and notes the nodes
// that lack a key for NormalizeScore.
func (s *aggregate) PreScore(state framework.CycleState, _ *v1.Pod, feasible schedule.Feasible) *framework.Status {
	if len(s.scoreCounts) == 0 {
		return framework.NewStatus(framework.Skip)
	}
	note := &preScoreState{}
	if !s.allowsMissingKeys {
		for _, row := range feasible.Rows {
			if s.lacksKey(row) {
				if note.ignoredNodes == nil {
					note.ignoredNodes = sets.Set[string]{}
				}
				note.ignoredNodes.Insert(s.table.NodeObjects[row].Name)
			}
		}
	}
	s.weights = s.weights[:0]
	for i := range s.scoreCounts {
		s.weights = append(s.weights, math.Log(float64(s.domainCount(&s.scoreCounts[i], feasible)+2)))
	}
	state.Write(scoreKey, note)
	return nil
}

// score does for feasible rows what Score does for feasible nodes, from the sums.
func (s *aggregate) score(rows []int32, raw []int64) {
	if len(s.weights) < len(s.scoreCounts) {
		return
	}
	for k, row := range rows {
		if s.lacksKey(row) {
			continue
		}
		var sum float64
		for i := range s.scoreCounts {
			c := &s.scoreCounts[i]
			if id, has := c.domainOfRow(row); has {
				sum += float64(s.matchingPods(c, id, row))*s.weights[i] + float64(c.maxSkew-1)
			}
		}
		raw[k] = int64(math.Round(sum))
	}
}

// lacksKey tells whether the row is not scored, as it lacks a key.
func (s *aggregate) lacksKey(row int32) bool {
	if s.allowsMissingKeys {
		return false
	}
	for i := range s.scoreCounts {
		if s.scoreCounts[i].labels.Numbers[row] == 0 {
			return true
		}
	}
	return false
}

// domainCount is how many domains the rows are in: the more, the more the constraint's counts
// weigh.
func (s *aggregate) domainCount(c *constraintCounts, feasible schedule.Feasible) int {
	n := 0
	s.seen = append(s.seen[:0], make([]bool, len(c.labels.Values))...)
	for k, row := range feasible.Rows {
		if s.lacksKey(row) {
			continue
		}
		if c.key == v1.LabelHostname || c.labels.Unique(row) {
			n += feasible.Times(k)
		} else if id, _ := c.domainOfRow(row); !s.seen[id] {
			s.seen[id] = true
			n++
		}
	}
	return n
}

// matchingPods is how many matching Pods a domain has. Hosts that share a name are counted each for
// itself.
func (s *aggregate) matchingPods(c *constraintCounts, id, row int32) int {
	switch {
	case c.key == v1.LabelHostname && !c.labels.Unique(row):
		return count(s.table.Nodes[row].GetPods(), c.selector, s.pod.Namespace)
	case int(id) < len(c.podsByDomain):
		return c.podsByDomain[id]
	}
	return 0
}
