package place

import (
	"context"
	"math"

	"k8s.io/kube-scheduler/framework"
)

// score gives the rows that pass their raw scores and totals.
func (c *class) score(ctx context.Context, in *In, rows []int32) {
	m := c.memory
	moved := false
	for i := range c.scorers {
		s := &c.scorers[i]
		m.scores = resized(m.scores, len(rows))
		clear(m.scores)
		if s.Opinion == nil {
			for k, row := range rows {
				answered := in.Clock.of(s.judge, "Score")
				v, status := s.judge.Score(ctx, in.State, in.Pod, m.Table.Nodes[row])
				if answered(status); !status.IsSuccess() {
					c.odd = true
					return
				}
				m.scores[k] = v
			}
		} else if s.Opinion.Score != nil {
			answered := in.Clock.of(s.judge, "Score")
			s.Opinion.Score(rows, m.scores)
			answered(nil)
		}
		if !s.take(rows, m.scores, len(c.no)) {
			c.odd = true
			return
		}
		moved = s.settle() || moved
	}
	if !moved {
		c.rank(rows)
		return
	}
	for row := range c.no {
		if c.no[row] == 0 {
			c.ranks.Set(int32(row), c.total(int32(row)))
		}
	}
}

func (c *class) rank(rows []int32) {
	for _, row := range rows {
		c.ranks.Set(row, c.total(row))
	}
}

// take keeps raw scores; false when one is out of bounds.
func (s *opinedScorer) take(rows []int32, scores []int64, n int) bool {
	for k, row := range rows {
		v := scores[k]
		if v > math.MaxInt32/framework.MaxScore || v < 0 || !s.scaled && v > framework.MaxScore {
			return false
		}
		if v != 0 && s.raw == nil {
			s.raw = make([]int32, n)
		}
		if s.raw != nil {
			s.raw[row] = int32(v)
		}
		if s.scaled {
			s.times[int32(v)]++
		}
	}
	return true
}

func (s *opinedScorer) uncount(v int32) {
	if s.times[v]--; s.times[v] == 0 {
		delete(s.times, v)
	}
}

// settle finds the largest raw score anew; true when it is another.
func (s *opinedScorer) settle() bool {
	if !s.scaled {
		return false
	}
	was := s.top
	s.top = 0
	for v := range s.times {
		s.top = max(s.top, v)
	}
	return s.top != was
}

func (s *opinedScorer) at32(row int32) int32 {
	if s.raw == nil {
		return 0
	}
	return s.raw[row]
}

// norm is what the judge's normalisation makes of a row's raw score.
func (s *opinedScorer) norm(row int32) int64 {
	v := int64(s.at32(row))
	if !s.scaled {
		return v
	}
	if s.top > 0 {
		v = framework.MaxScore * v / int64(s.top)
	}
	if s.reverse {
		v = framework.MaxScore - v
	}
	return v
}

func (c *class) total(row int32) int32 {
	if len(c.scorers) == 0 {
		return 1
	}
	var sum int64
	for i := range c.scorers {
		sum += c.scorers[i].norm(row) * c.scorers[i].judge.Weight
	}
	return int32(sum)
}
