package podtopologyspread

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/place"
)

// domain is the number of the node's domain: 0 for none, which is also that of an empty value.
func (c *sums) domain(node *v1.Node) int32 {
	value := node.Labels[c.key]
	if value == "" {
		return 0
	}
	return c.labels.Number(value)
}

// at is the domain of a row, and whether the node has the key at all.
func (c *sums) at(row int32) (id int32, has bool) {
	id = c.labels.ID[row]
	if id != 0 && c.labels.Values[id] == "" {
		return 0, true
	}
	return id, id != 0
}

// PreScore weighs the constraints by how many domains the feasible rows are in, and notes the nodes that lack a key for NormalizeScore.
func (s *tally) PreScore(state framework.CycleState, _ *v1.Pod, feasible place.Feasible) *framework.Status {
	if len(s.soft) == 0 {
		return framework.NewStatus(framework.Skip)
	}
	note := &soft{}
	if !s.lenient {
		for _, row := range feasible.Rows {
			if s.lacks(row) {
				if note.ignored == nil {
					note.ignored = sets.Set[string]{}
				}
				note.ignored.Insert(s.table.Objects[row].Name)
			}
		}
	}
	s.weights = s.weights[:0]
	for i := range s.soft {
		s.weights = append(s.weights, math.Log(float64(s.size(&s.soft[i], feasible)+2)))
	}
	state.Write(scoreKey, note)
	return nil
}

// score does for feasible rows what Score does for feasible nodes, from the sums.
func (s *tally) score(rows []int32, raw []int64) {
	if len(s.weights) < len(s.soft) {
		return
	}
	for k, row := range rows {
		if s.lacks(row) {
			continue
		}
		var sum float64
		for i := range s.soft {
			c := &s.soft[i]
			if id, has := c.at(row); has {
				sum += float64(s.matching(c, id, row))*s.weights[i] + float64(c.maxSkew-1)
			}
		}
		raw[k] = int64(math.Round(sum))
	}
}

// lacks tells whether the row is not scored, as it lacks a key.
func (s *tally) lacks(row int32) bool {
	if s.lenient {
		return false
	}
	for i := range s.soft {
		if s.soft[i].labels.ID[row] == 0 {
			return true
		}
	}
	return false
}

// size is how many domains the rows are in: the more, the more the constraint's counts weigh.
func (s *tally) size(c *sums, feasible place.Feasible) int {
	n := 0
	s.seen = append(s.seen[:0], make([]bool, len(c.labels.Values))...)
	for k, row := range feasible.Rows {
		if s.lacks(row) {
			continue
		}
		if c.key == v1.LabelHostname || c.labels.Alone(row) {
			n += feasible.Times(k)
		} else if id, _ := c.at(row); !s.seen[id] {
			s.seen[id] = true
			n++
		}
	}
	return n
}

// matching is how many matching Pods a domain has. Hosts that share a name are counted each for itself.
func (s *tally) matching(c *sums, id, row int32) int {
	switch {
	case c.key == v1.LabelHostname && !c.labels.Alone(row):
		return count(s.table.Nodes[row].GetPods(), c.selector, s.pod.Namespace)
	case int(id) < len(c.there):
		return c.there[id]
	}
	return 0
}
