package podtopologyspread

import (
	"context"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// invalidScore marks nodes that are not scored until normalising.
const invalidScore = -1

// preScoreState is what scoring needs: counts by domain of the feasible nodes, per constraint, and
// the constraint's weight.
type preScoreState struct {
	constraints  []constraint
	pods         []map[string]int
	weights      []float64
	ignoredNodes sets.Set[string] // nodes that lack a key
}

// Clone shares: nothing changes it after PreScore.
func (s *preScoreState) Clone() framework.StateData { return s }

// PreScore counts matching Pods by the domains that feasible nodes are in.
func (pl *Plugin) PreScore(_ context.Context, state framework.CycleState, p *v1.Pod,
	feasible []framework.NodeInfo) *framework.Status {
	all, err := pl.constraints(p, v1.ScheduleAnyway)
	if err != nil {
		return framework.AsStatus(err)
	}
	snap := schedule.SnapshotOf(state)
	if len(all) == 0 || snap == nil {
		return framework.NewStatus(framework.Skip)
	}
	needKeys := len(p.Spec.TopologySpreadConstraints) > 0 || !pl.systemDefaulting
	s := pl.newPreScoreState(all, feasible, needKeys)
	required := nodeaffinity.GetRequiredNodeAffinity(p)
	for _, n := range snap.All() {
		node := n.Node()
		if needKeys && !hasAllKeys(node, all) {
			continue
		}
		for i := range all {
			c := &all[i]
			domain := node.Labels[c.key]
			if _, counted := s.pods[i][domain]; counted && c.includes(p, node, required) {
				s.pods[i][domain] += count(n.GetPods(), c.selector, p.Namespace)
			}
		}
	}
	state.Write(scoreKey, s)
	return nil
}

// newPreScoreState finds the domains and how many there are of each constraint: the more, the more
// its counts weigh.
func (pl *Plugin) newPreScoreState(all []constraint, feasible []framework.NodeInfo, needKeys bool) *preScoreState {
	s := &preScoreState{constraints: all, pods: make([]map[string]int, len(all)), weights: make([]float64, len(all)),
		ignoredNodes: sets.Set[string]{}}
	for i := range all {
		s.pods[i] = map[string]int{}
	}
	for _, n := range feasible {
		if needKeys && !hasAllKeys(n.Node(), all) {
			s.ignoredNodes.Insert(n.Node().Name)
			continue
		}
		for i := range all {
			if all[i].key != v1.LabelHostname { // counted node by node when scored
				s.pods[i][n.Node().Labels[all[i].key]] = 0
			}
		}
	}
	for i := range all {
		size := len(s.pods[i])
		if all[i].key == v1.LabelHostname {
			size = len(feasible) - len(s.ignoredNodes)
		}
		s.weights[i] = math.Log(float64(size + 2))
	}
	return s
}

// Score sums the weighted counts of the node's domains: lower is better until normalised.
func (pl *Plugin) Score(_ context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) (int64, *framework.Status) {
	v, err := state.Read(scoreKey)
	s, ok := v.(*preScoreState)
	if err != nil || !ok || s.ignoredNodes.Has(n.Node().Name) {
		return 0, nil
	}
	var score float64
	for i := range s.constraints {
		c := &s.constraints[i]
		domain, ok := n.Node().Labels[c.key]
		if !ok {
			continue
		}
		matching := s.pods[i][domain]
		if c.key == v1.LabelHostname {
			matching = count(n.GetPods(), c.selector, p.Namespace)
		}
		score += float64(matching)*s.weights[i] + float64(c.maxSkew-1)
	}
	return int64(math.Round(score)), nil
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
