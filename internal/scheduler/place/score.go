package place

import (
	"context"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"
)

// Boards is memory that rulings reuse. A Ruling's scores and refusals live in it: take what you need (Fact, Scores, Refusals) before the next ruling.
type Boards struct {
	said     []*framework.Status
	feasible []framework.NodeInfo
	no       []refusal
	norm     []framework.NodeScoreList // per plugin, per feasible node
	raw      [][]int64
	totals   []int64
	names    []string
	failed   []*framework.Status
	cycle    cycle
}

func (b *Boards) statuses(n int) []*framework.Status {
	b.said = resized(b.said, n)
	clear(b.said)
	return b.said
}

func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

func (b *Boards) scores(plugins int, nodes []framework.NodeInfo) {
	b.norm, b.raw = resized(b.norm, plugins), resized(b.raw, plugins)
	b.totals, b.failed = resized(b.totals, len(nodes)), resized(b.failed, len(nodes))
	clear(b.totals)
	clear(b.failed)
	b.names = resized(b.names, len(nodes))
	for i, n := range nodes {
		b.names[i] = n.Node().Name
	}
	for p := range plugins {
		b.norm[p], b.raw[p] = resized(b.norm[p], len(nodes)), resized(b.raw[p], len(nodes))
		for i, name := range b.names {
			if b.norm[p][i].Name != name { // most often it is the name of the ruling before
				b.norm[p][i].Name = name
			}
		}
	}
}

// preScore lets plugins prepare; false ends the ruling. With a single feasible node nothing is scored.
func (c *cycle) preScore() bool {
	if len(c.feasible) == 1 || len(c.Judges.PreScore) == 0 {
		return true
	}
	defer c.Time("PreScore")()
	s := PreScore(c.ctx, c.In, c.feasible)
	if !s.IsSuccess() {
		c.ruling.End = s
	}
	return s.IsSuccess()
}

// PreScore runs the PreScore plugins on feasible nodes; those that skip are not scored with.
func PreScore(ctx context.Context, in In, nodes []framework.NodeInfo) *framework.Status {
	skip := sets.Set[string]{}
	for _, p := range in.Judges.PreScore {
		answered := in.Clock.of(p, "PreScore")
		s := p.PreScore(ctx, in.State, in.Pod, nodes)
		answered(s)
		if s.IsSkip() {
			skip.Insert(p.Name())
		} else if !s.IsSuccess() {
			return framework.AsStatus(fmt.Errorf("running PreScore plugin %q: %w", p.Name(), s.AsError())).WithPlugin(p.Name())
		}
	}
	in.State.SetSkipScorePlugins(skip)
	return nil
}

// Score runs the Score plugins on nodes, normalises and weighs, in the framework's form.
func Score(ctx context.Context, in In, nodes []framework.NodeInfo) ([]framework.NodePluginScores, *framework.Status) {
	in.Boards = &Boards{}
	c := &cycle{In: in, ctx: ctx, feasible: nodes, ruling: &Ruling{Pod: in.Pod}}
	if c.Each == nil {
		c.Each = inOrder
	}
	if s := c.scoreAll(); s != nil {
		return nil, s
	}
	out := make([]framework.NodePluginScores, len(nodes))
	for i, n := range nodes {
		out[i] = framework.NodePluginScores{Name: n.Node().Name, TotalScore: in.Boards.totals[i]}
		for p, s := range c.ruling.scorers {
			out[i].RawScores = append(out[i].RawScores, framework.PluginScore{Name: s.Name(), Score: in.Boards.raw[p][i]})
			out[i].Scores = append(out[i].Scores, framework.PluginScore{Name: s.Name(), Score: in.Boards.norm[p][i].Score * s.Weight})
		}
	}
	return out, nil
}

// score asks for scores, normalises and weighs them; false ends the ruling.
func (c *cycle) score() bool {
	c.ruling.feasible = c.feasible
	if len(c.feasible) == 1 {
		return true
	}
	defer c.Time("Score")()
	s := c.scoreAll()
	if s != nil {
		c.ruling.End = s
	}
	return s == nil
}

// scoreAll fills the boards; nil, or the error that stopped it.
func (c *cycle) scoreAll() *framework.Status {
	r, b := c.ruling, c.Boards
	r.scorers, r.boards = activeScorers(c.Judges.Score, c.State.GetSkipScorePlugins()), b
	b.scores(len(r.scorers), c.feasible)
	places := make([]int, len(r.scorers))
	for p := range places {
		places[p] = p
	}
	c.askScores(r.scorers, places)
	return c.endOfScores()
}

// askScores asks scorers about every feasible node; places are theirs on the boards.
func (c *cycle) askScores(scorers []Scorer, places []int) {
	b := c.Boards
	c.Each(len(c.feasible), func(i int) {
		for k, s := range scorers {
			answered := c.Clock.of(s.ScorePlugin, "Score")
			n, status := s.Score(c.ctx, c.State, c.Pod, c.feasible[i])
			if answered(status); !status.IsSuccess() {
				b.failed[i] = framework.AsStatus(fmt.Errorf("plugin %q failed with: %w", s.Name(), status.AsError())).WithPlugin(s.Name())
				return
			}
			b.norm[places[k]][i].Score = n
		}
	})
}

// endOfScores normalises and weighs; nil, or the error that stopped it.
func (c *cycle) endOfScores() *framework.Status {
	r, b := c.ruling, c.Boards
	for _, s := range b.failed {
		if s != nil {
			return framework.AsStatus(fmt.Errorf("running Score plugins: %w", s.AsError())).WithPlugin(s.Plugin())
		}
	}
	for p, s := range r.scorers {
		if end := c.weigh(p, s); end != nil {
			return end
		}
	}
	if len(r.scorers) == 0 {
		for i := range b.totals {
			b.totals[i] = 1
		}
	}
	return nil
}

func (c *cycle) weigh(p int, s Scorer) *framework.Status {
	b := c.Boards
	list := b.norm[p]
	for i := range list {
		b.raw[p][i] = list[i].Score
	}
	if ext := s.ScoreExtensions(); ext != nil {
		answered := c.Clock.of(s.ScorePlugin, "ScoreExtensionNormalize")
		status := ext.NormalizeScore(c.ctx, c.State, c.Pod, list)
		if answered(status); !status.IsSuccess() {
			return framework.AsStatus(fmt.Errorf("running Normalize on Score plugins: plugin %q failed with: %w", s.Name(), status.AsError())).WithPlugin(s.Name())
		}
	}
	for i := range list {
		if list[i].Score < framework.MinScore || list[i].Score > framework.MaxScore {
			return framework.AsStatus(fmt.Errorf("applying score defaultWeights on Score plugins: plugin %q returns an invalid score %v, it should in the range of [%v, %v] after normalizing",
				s.Name(), list[i].Score, framework.MinScore, framework.MaxScore)).WithPlugin(s.Name())
		}
		b.totals[i] += list[i].Score * s.Weight
	}
	return nil
}

// choose takes the best node, ties by Pick, and names the runner-up.
func (c *cycle) choose() {
	r := c.ruling
	if len(c.feasible) == 1 {
		r.Winner, r.Ties = c.feasible[0].Node().Name, 1
		return
	}
	totals := c.Boards.totals
	best := int64(math.MinInt64)
	for _, t := range totals {
		best = max(best, t)
	}
	for _, t := range totals {
		if t == best {
			r.Ties++
		}
	}
	pick := 0
	if r.Ties > 1 && c.Pick != nil {
		pick = c.Pick(r.Ties)
	}
	winner, next := -1, -1
	for i, t := range totals {
		if t == best {
			if pick == 0 {
				winner = i
			}
			pick--
		}
		if i != winner && (next < 0 || t > totals[next]) {
			next = i
		}
	}
	r.at = winner
	r.Winner, r.RunnerUp = c.feasible[winner].Node().Name, c.feasible[next].Node().Name
	r.Lead = best - totals[next]
}

func activeScorers(all []Scorer, skip sets.Set[string]) []Scorer {
	if len(skip) == 0 {
		return all
	}
	out := make([]Scorer, 0, len(all))
	for _, s := range all {
		if !skip.Has(s.Name()) {
			out = append(out, s)
		}
	}
	return out
}
