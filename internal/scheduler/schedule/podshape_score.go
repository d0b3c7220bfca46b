package schedule

import (
	"context"
	"math"

	"k8s.io/kube-scheduler/framework"
)

// score asks for the raw scores of rows that pass.
func (c *podShape) score(ctx context.Context, in *Input, rows []int32) {
	m := c.cache
	for i := range c.compiledScorers {
		s := &c.compiledScorers[i]
		m.scores = resized(m.scores, len(rows))
		clear(m.scores)
		if s.Evaluator == nil {
			for k, row := range rows {
				done := startTimer(in.PluginTimer, s.plugin.ScorePlugin, "Score")
				v, status := s.plugin.Score(ctx, in.State, in.Pod, m.Table.Nodes[row])
				if done(status); !status.IsSuccess() {
					c.uncacheable = true
					return
				}
				m.scores[k] = v
			}
		} else if s.Evaluator.Score != nil {
			done := startTimer(in.PluginTimer, s.plugin.ScorePlugin, "Score")
			s.Evaluator.Score(rows, m.scores)
			done(nil)
		}
		if !s.copyRawScores(rows, m.scores, len(c.refusalNumbers)) {
			c.uncacheable = true
			return
		}
	}
}

// copyRawScores keeps raw scores; false when one is out of bounds.
func (s *compiledScorer) copyRawScores(rows []int32, scores []int64, n int) bool {
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

func (s *compiledScorer) rawScore(row int32) int32 {
	if s.raw == nil {
		return 0
	}
	return s.raw[row]
}

// normalize is what the plugin's normalisation makes of a raw score when top is the largest.
func (s *compiledScorer) normalize(v, top int64) int64 {
	if top > 0 {
		v = framework.MaxScore * v / top
	}
	if s.reverse {
		v = framework.MaxScore - v
	}
	return v
}

// totalScore sums the weighted scores of a row that are not scaled.
func (c *podShape) totalScore(row int32) int32 {
	if c.refusalNumbers[row] != 0 {
		return 0
	}
	var sum int64
	for i := range c.compiledScorers {
		if s := &c.compiledScorers[i]; !s.scaled {
			sum += int64(s.rawScore(row)) * s.plugin.Weight
		}
	}
	return int32(sum)
}
