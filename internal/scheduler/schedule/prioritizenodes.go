package schedule

import (
	"context"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"
)

// Buffers is memory that cycles reuse. A Result's scores and refusals live in it: take what you
// need (Fact, Scores, Refusals) before the next cycle.
type Buffers struct {
	statusBuffer []*framework.Status
	feasible     []framework.NodeInfo
	refusals     []refusal
	normalized   []framework.NodeScoreList // per plugin, per feasible node
	raw          [][]int64
	totals       []int64
	names        []string
	failed       []*framework.Status
	cycle        cycle
}

func (b *Buffers) statuses(n int) []*framework.Status {
	b.statusBuffer = resized(b.statusBuffer, n)
	clear(b.statusBuffer)
	return b.statusBuffer
}

func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// resizeScores prepares the buffers for the scores of so many plugins over the nodes: totals are 0,
// entries carry their node's name.
func (b *Buffers) resizeScores(plugins int, nodes []framework.NodeInfo) {
	b.normalized, b.raw = resized(b.normalized, plugins), resized(b.raw, plugins)
	b.totals, b.failed = resized(b.totals, len(nodes)), resized(b.failed, len(nodes))
	clear(b.totals)
	clear(b.failed)
	b.names = resized(b.names, len(nodes))
	for i, n := range nodes {
		b.names[i] = n.Node().Name
	}
	for p := range plugins {
		b.normalized[p], b.raw[p] = resized(b.normalized[p], len(nodes)), resized(b.raw[p], len(nodes))
		for i, name := range b.names {
			if b.normalized[p][i].Name != name { // most often it is the name of the cycle before
				b.normalized[p][i].Name = name
			}
		}
	}
}

// preScore lets plugins prepare; false ends the cycle. With a single feasible node nothing is
// scored.
func (c *cycle) preScore() bool {
	if len(c.feasible) == 1 || len(c.Plugins.PreScore) == 0 {
		return true
	}
	defer c.TimePoint("PreScore")()
	s := RunPreScorePlugins(c.ctx, c.Input, c.feasible)
	if !s.IsSuccess() {
		c.result.Status = s
	}
	return s.IsSuccess()
}

// RunPreScorePlugins runs the PreScore plugins on feasible nodes; those that skip are not scored
// with.
func RunPreScorePlugins(ctx context.Context, in Input, nodes []framework.NodeInfo) *framework.Status {
	skip := sets.Set[string]{}
	for _, p := range in.Plugins.PreScore {
		done := startTimer(in.PluginTimer, p, "PreScore")
		s := p.PreScore(ctx, in.State, in.Pod, nodes)
		done(s)
		if s.IsSkip() {
			skip.Insert(p.Name())
		} else if !s.IsSuccess() {
			return framework.AsStatus(fmt.Errorf("running PreScore plugin %q: %w", p.Name(), s.AsError())).WithPlugin(
				p.Name())
		}
	}
	in.State.SetSkipScorePlugins(skip)
	return nil
}

// RunScorePlugins runs the Score plugins on nodes, normalises and weighs, in the framework's form.
func RunScorePlugins(ctx context.Context, in Input,
	nodes []framework.NodeInfo) ([]framework.NodePluginScores, *framework.Status) {
	in.Buffers = &Buffers{}
	c := &cycle{Input: in, ctx: ctx, feasible: nodes, result: &Result{Pod: in.Pod}}
	if c.Parallel == nil {
		c.Parallel = sequential
	}
	if s := c.runScorePlugins(); s != nil {
		return nil, s
	}
	out := make([]framework.NodePluginScores, len(nodes))
	for i, n := range nodes {
		out[i] = framework.NodePluginScores{Name: n.Node().Name, TotalScore: in.Buffers.totals[i]}
		for p, s := range c.result.scorers {
			out[i].RawScores = append(out[i].RawScores,
				framework.PluginScore{Name: s.Name(), Score: in.Buffers.raw[p][i]})
			out[i].Scores = append(out[i].Scores,
				framework.PluginScore{Name: s.Name(), Score: in.Buffers.normalized[p][i].Score * s.Weight})
		}
	}
	return out, nil
}

// prioritizeNodes asks for scores, normalises and weighs them; false ends the cycle.
func (c *cycle) prioritizeNodes() bool {
	c.result.feasible = c.feasible
	if len(c.feasible) == 1 {
		return true
	}
	defer c.TimePoint("Score")()
	s := c.runScorePlugins()
	if s != nil {
		c.result.Status = s
	}
	return s == nil
}

// runScorePlugins fills the score buffers; nil, or the error that stopped it.
func (c *cycle) runScorePlugins() *framework.Status {
	r, b := c.result, c.Buffers
	r.scorers, r.buffers = scorersNotSkipped(c.Plugins.Score, c.State.GetSkipScorePlugins()), b
	b.resizeScores(len(r.scorers), c.feasible)
	places := make([]int, len(r.scorers))
	for p := range places {
		places[p] = p
	}
	c.runScorePluginsOnNodes(r.scorers, places)
	return c.normalizeAndWeigh()
}

// runScorePluginsOnNodes calls the Score plugins for every feasible node; places are theirs in the
// buffers.
func (c *cycle) runScorePluginsOnNodes(scorers []WeightedScorePlugin, places []int) {
	b := c.Buffers
	c.Parallel(len(c.feasible), func(i int) {
		for k, s := range scorers {
			done := startTimer(c.PluginTimer, s.ScorePlugin, "Score")
			n, status := s.Score(c.ctx, c.State, c.Pod, c.feasible[i])
			if done(status); !status.IsSuccess() {
				b.failed[i] = framework.AsStatus(fmt.Errorf("plugin %q failed with: %w", s.Name(),
					status.AsError())).WithPlugin(s.Name())
				return
			}
			b.normalized[places[k]][i].Score = n
		}
	})
}

// normalizeAndWeigh normalises and weighs; nil, or the error that stopped it.
func (c *cycle) normalizeAndWeigh() *framework.Status {
	r, b := c.result, c.Buffers
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

// weigh normalizes the scores of plugin number p, checks their range and adds them, times the
// plugin's weight, to the totals. The raw scores stay in the buffers for the explanation.
func (c *cycle) weigh(p int, s WeightedScorePlugin) *framework.Status {
	b := c.Buffers
	list := b.normalized[p]
	for i := range list {
		b.raw[p][i] = list[i].Score
	}
	if ext := s.ScoreExtensions(); ext != nil {
		done := startTimer(c.PluginTimer, s.ScorePlugin, "ScoreExtensionNormalize")
		status := ext.NormalizeScore(c.ctx, c.State, c.Pod, list)
		if done(status); !status.IsSuccess() {
			return framework.AsStatus(fmt.Errorf("running Normalize on Score plugins: plugin %q failed with: %w",
				s.Name(), status.AsError())).WithPlugin(s.Name())
		}
	}
	for i := range list {
		if list[i].Score < framework.MinScore || list[i].Score > framework.MaxScore {
			return framework.AsStatus(
				fmt.Errorf("applying score defaultWeights on Score plugins: plugin %q returns an invalid score %v, "+
					"it should in the range of [%v, %v] after normalizing",
					s.Name(), list[i].Score, framework.MinScore, framework.MaxScore)).WithPlugin(s.Name())
		}
		b.totals[i] += list[i].Score * s.Weight
	}
	return nil
}

// selectHost takes the best node, ties by Pick, and names the runner-up.
func (c *cycle) selectHost() {
	r := c.result
	if len(c.feasible) == 1 {
		r.SuggestedHost, r.TopScoredNodes = c.feasible[0].Node().Name, 1
		return
	}
	totals := c.Buffers.totals
	best := int64(math.MinInt64)
	for _, t := range totals {
		best = max(best, t)
	}
	for _, t := range totals {
		if t == best {
			r.TopScoredNodes++
		}
	}
	pick := 0
	if r.TopScoredNodes > 1 && c.PickTie != nil {
		pick = c.PickTie(r.TopScoredNodes)
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
	r.chosen = winner
	r.SuggestedHost, r.RunnerUp = c.feasible[winner].Node().Name, c.feasible[next].Node().Name
	r.Lead = best - totals[next]
}

// scorersNotSkipped are the Score plugins whose PreScore did not skip this Pod.
func scorersNotSkipped(all []WeightedScorePlugin, skip sets.Set[string]) []WeightedScorePlugin {
	if len(skip) == 0 {
		return all
	}
	out := make([]WeightedScorePlugin, 0, len(all))
	for _, s := range all {
		if !skip.Has(s.Name()) {
			out = append(out, s)
		}
	}
	return out
}
