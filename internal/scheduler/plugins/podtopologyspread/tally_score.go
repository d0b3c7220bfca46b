package podtopologyspread

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
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

// score does for feasible rows what PreScore and Score do for feasible nodes, from the sums.
func (s *tally) score(rows []int32, raw []int64) {
	if s.note == nil || len(s.soft) == 0 {
		return
	}
	ignored := s.without(rows)
	sum := make([]float64, len(rows))
	for i := range s.soft {
		c := &s.soft[i]
		weight := math.Log(float64(c.size(rows, ignored) + 2))
		for k, row := range rows {
			if ignored != nil && ignored[k] {
				continue
			}
			id, has := c.at(row)
			if !has {
				continue
			}
			sum[k] += float64(s.matching(c, id, row))*weight + float64(c.maxSkew-1)
		}
	}
	for k := range rows {
		raw[k] = int64(math.Round(sum[k]))
	}
}

// without marks the rows that lack a key and notes their names; nil when there are none.
func (s *tally) without(rows []int32) []bool {
	if s.lenient {
		return nil
	}
	var out []bool
	for k, row := range rows {
		for i := range s.soft {
			if s.soft[i].labels.ID[row] != 0 {
				continue
			}
			if out == nil {
				out, s.note.ignored = make([]bool, len(rows)), sets.Set[string]{}
			}
			out[k] = true
			s.note.ignored.Insert(s.table.Objects[row].Name)
			break
		}
	}
	return out
}

// size is how many domains the rows are in: the more, the more the constraint's counts weigh.
func (c *sums) size(rows []int32, ignored []bool) int {
	n := 0
	if c.key == v1.LabelHostname {
		for k := range rows {
			if ignored == nil || !ignored[k] {
				n++
			}
		}
		return n
	}
	seen := make([]bool, len(c.labels.Values))
	for k, row := range rows {
		if ignored != nil && ignored[k] {
			continue
		}
		if id, _ := c.at(row); !seen[id] {
			seen[id] = true
			n++
		}
	}
	return n
}

// matching is how many matching Pods a domain has. Hosts that share a name are counted each for itself.
func (s *tally) matching(c *sums, id, row int32) int {
	switch {
	case c.key == v1.LabelHostname && int(id) < len(c.nodes) && c.nodes[id] > 1:
		return count(s.table.Nodes[row].GetPods(), c.selector, s.pod.Namespace)
	case int(id) < len(c.pods):
		return c.pods[id]
	}
	return 0
}
