package podtopologyspread

import (
	"context"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// invalidScore marks nodes that are not scored until normalising.
const invalidScore = -1

// preScoreState is what scoring needs of the feasible nodes.
type preScoreState struct {
	*aggregate
	weights      []float64        // by constraint: the more domains there are, the more its counts weigh
	ignoredNodes sets.Set[string] // nodes that lack a key
}

// Clone shares: nothing changes it after PreScore.
func (n *preScoreState) Clone() framework.StateData { return n }

// PreScore counts matching Pods by domain.
func (pl *Plugin) PreScore(_ context.Context, state framework.CycleState, p *v1.Pod,
	feasible []framework.NodeInfo) *framework.Status {
	soft, err := pl.constraints(p, v1.ScheduleAnyway)
	if err != nil {
		return framework.AsStatus(err)
	}
	snap := schedule.SnapshotOf(state)
	if len(soft) == 0 || snap == nil {
		return framework.NewStatus(framework.Skip)
	}
	rows := make([]int32, 0, len(feasible))
	for _, n := range feasible {
		if row, ok := snap.Index(n.Node().Name); ok {
			rows = append(rows, int32(row))
		}
	}
	return pl.newAggregateOver(snap.All(), p, nil, soft).PreScore(state, p, schedule.Feasible{Rows: rows})
}

// PreScore weighs the constraints by how many domains the feasible rows are in, and notes the nodes
// that lack a key for NormalizeScore.
func (s *aggregate) PreScore(state framework.CycleState, _ *v1.Pod, feasible schedule.Feasible) *framework.Status {
	if len(s.scoreCounts) == 0 {
		return framework.NewStatus(framework.Skip)
	}
	note := &preScoreState{aggregate: s, weights: make([]float64, len(s.scoreCounts))}
	for _, row := range feasible.Rows {
		if s.lacksKey(row) {
			if note.ignoredNodes == nil {
				note.ignoredNodes = sets.Set[string]{}
			}
			note.ignoredNodes.Insert(s.rows.NodeObjects[row].Name)
		}
	}
	for i := range note.weights {
		note.weights[i] = math.Log(float64(s.domainCount(&s.scoreCounts[i], feasible) + 2))
	}
	s.scores = note
	state.Write(scoreKey, note)
	return nil
}

// Score sums the weighted counts of the node's domains: lower is better until normalised.
func (pl *Plugin) Score(_ context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) (int64, *framework.Status) {
	v, err := state.Read(scoreKey)
	s, ok := v.(*preScoreState)
	if err != nil || !ok || s.ignoredNodes.Has(n.Node().Name) {
		return 0, nil
	}
	return s.score(func(c *constraintCounts) (int, bool) {
		value, has := n.Node().Labels[c.key]
		switch id, known := c.labels.Find(value); {
		case !has:
			return 0, false
		case c.key == v1.LabelHostname:
			return c.count(n.GetPods(), p.Namespace), true
		case value == "":
			return c.podsIn(0), true
		case known:
			return c.podsIn(id), true
		}
		return 0, true
	}), nil
}

// scoreRows does for feasible rows what Score does for feasible nodes.
func (s *aggregate) scoreRows(rows []int32, raw []int64) {
	if s.scores == nil {
		return
	}
	row := int32(0)
	matchingPods := func(c *constraintCounts) (int, bool) {
		id, has := c.scoringDomainOfRow(row)
		if !has {
			return 0, false
		}
		return s.matchingPods(c, id, row), true
	}
	for k := range rows {
		if row = rows[k]; !s.lacksKey(row) {
			raw[k] = s.scores.score(matchingPods)
		}
	}
}

// score is the rule, of a node or a row: matchingPods returns how many matching Pods the node's
// domain has, and whether the node has the topology key.
func (n *preScoreState) score(matchingPods func(c *constraintCounts) (n int, has bool)) int64 {
	var sum float64
	for i := range n.scoreCounts {
		c := &n.scoreCounts[i]
		if matching, has := matchingPods(c); has {
			sum += float64(matching)*n.weights[i] + float64(c.maxSkew-1)
		}
	}
	return int64(math.Round(sum))
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

// domainCount is how many domains the rows are in.
func (s *aggregate) domainCount(c *constraintCounts, feasible schedule.Feasible) int {
	n := 0
	s.seen = append(s.seen[:0], make([]bool, len(c.labels.Values))...)
	for k, row := range feasible.Rows {
		if s.lacksKey(row) {
			continue
		}
		if c.key == v1.LabelHostname || c.labels.Unique(row) {
			n += feasible.Times(k)
		} else if id, _ := c.scoringDomainOfRow(row); !s.seen[id] {
			s.seen[id] = true
			n++
		}
	}
	return n
}

// matchingPods is how many matching Pods a row's domain has. Hosts that share a name are counted
// each for itself.
func (s *aggregate) matchingPods(c *constraintCounts, id, row int32) int {
	if c.key == v1.LabelHostname && !c.labels.Unique(row) {
		return c.count(s.rows.Nodes[row].GetPods(), s.pod.Namespace)
	}
	return c.podsIn(id)
}

// ScoreExtensions normalises.
func (pl *Plugin) ScoreExtensions() framework.ScoreExtensions { return pl }

// NormalizeScore turns the sums round: the emptiest domain is best; nodes that lack a key get 0.
func (*Plugin) NormalizeScore(_ context.Context, state framework.CycleState, _ *v1.Pod,
	scores framework.NodeScoreList) *framework.Status {
	v, err := state.Read(scoreKey)
	s, ok := v.(*preScoreState)
	if err != nil || !ok {
		return nil
	}
	low, top := int64(math.MaxInt64), int64(0)
	for i := range scores {
		if len(s.ignoredNodes) > 0 && s.ignoredNodes.Has(scores[i].Name) {
			scores[i].Score = invalidScore
			continue
		}
		low, top = min(low, scores[i].Score), max(top, scores[i].Score)
	}
	for i := range scores {
		switch {
		case scores[i].Score == invalidScore:
			scores[i].Score = 0
		case top == 0:
			scores[i].Score = framework.MaxScore
		default:
			scores[i].Score = framework.MaxScore * (top + low - scores[i].Score) / top
		}
	}
	return nil
}
