package place

import (
	"context"
	"math"

	"k8s.io/kube-scheduler/framework"
)

// score asks for the raw scores of rows that pass.
func (c *class) score(ctx context.Context, in *In, rows []int32) {
	m := c.memory
	for i := range c.scorers {
		s := &c.scorers[i]
		m.scores = resized(m.scores, len(rows))
		clear(m.scores)
		if s.Opinion == nil {
			for k, row := range rows {
				answered := in.Clock.of(s.judge.ScorePlugin, "Score")
				v, status := s.judge.Score(ctx, in.State, in.Pod, m.Table.Nodes[row])
				if answered(status); !status.IsSuccess() {
					c.odd = true
					return
				}
				m.scores[k] = v
			}
		} else if s.Opinion.Score != nil {
			answered := in.Clock.of(s.judge.ScorePlugin, "Score")
			s.Opinion.Score(rows, m.scores)
			answered(nil)
		}
		if !s.take(rows, m.scores, len(c.no)) {
			c.odd = true
			return
		}
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
	}
	return true
}

func (s *opinedScorer) at32(row int32) int32 {
	if s.raw == nil {
		return 0
	}
	return s.raw[row]
}

// scale is what the judge's normalisation makes of a raw score when top is the largest.
func (s *opinedScorer) scale(v, top int64) int64 {
	if top > 0 {
		v = framework.MaxScore * v / top
	}
	if s.reverse {
		v = framework.MaxScore - v
	}
	return v
}

// points sums the weighted scores of a row that are not scaled.
func (c *class) points(row int32) int32 {
	if c.no[row] != 0 {
		return 0
	}
	var sum int64
	for i := range c.scorers {
		if s := &c.scorers[i]; !s.scaled {
			sum += int64(s.at32(row)) * s.judge.Weight
		}
	}
	return int32(sum)
}
