package interpodaffinity

import (
	"context"
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// preScoreState is what the Pods around weigh for or against each domain.
type preScoreState struct{ *aggregate }

// Clone shares: nothing changes it after PreScore.
func (s preScoreState) Clone() framework.StateData { return s }

func prefers(own *snapshot.PodInfo) bool {
	return len(own.GetPreferredAffinityTerms())+len(own.GetPreferredAntiAffinityTerms()) > 0
}

// PreScore weighs the preferred terms of the Pod, the preferred terms of Pods with affinity that
// match it, and their required affinity by the hard weight.
func (pl *Plugin) PreScore(_ context.Context, state framework.CycleState, p *v1.Pod,
	_ []framework.NodeInfo) *framework.Status {
	own, err := snapshot.NewPodInfo(p)
	if err != nil {
		return framework.AsStatus(fmt.Errorf("parsing pod: %w", err))
	}
	snap := schedule.SnapshotOf(state)
	if snap == nil || pl.ignorePreferred && !prefers(own) {
		return framework.NewStatus(framework.Skip)
	}
	nodes, _ := snap.HavePodsWithAffinityList() // a snapshot's list has no error
	pods := framework.NodeInfo.GetPodsWithAffinity
	if prefers(own) { // all Pods weigh something
		nodes, pods = snap.All(), framework.NodeInfo.GetPods
	}
	s := pl.newAggregate(own, columns.RowsOf(nodes))
	for row, n := range nodes {
		for _, other := range pods(n) {
			s.addScores(other, countedRow{n.Node(), int32(row), 1})
		}
	}
	return s.PreScore(state, p, schedule.Feasible{})
}

// Score sums the weights of the node's domains; it may be negative until normalised.
func (pl *Plugin) Score(_ context.Context, state framework.CycleState, _ *v1.Pod,
	n framework.NodeInfo) (int64, *framework.Status) {
	v, err := state.Read(scoreKey)
	s, ok := v.(preScoreState)
	if err != nil || !ok {
		return 0, nil
	}
	var sum int64
	for _, t := range s.topologies {
		if value, has := n.Node().Labels[t.key]; has {
			sum += t.ofValue(scoreCount, value)
		}
	}
	return sum, nil
}

// ScoreExtensions normalises.
func (pl *Plugin) ScoreExtensions() framework.ScoreExtensions { return pl }

// NormalizeScore stretches the sums over 0..100; equal sums are all 0.
func (*Plugin) NormalizeScore(_ context.Context, _ framework.CycleState, _ *v1.Pod,
	scores framework.NodeScoreList) *framework.Status {
	low, top := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range scores {
		low, top = min(low, scores[i].Score), max(top, scores[i].Score)
	}
	for i := range scores {
		var share float64
		if top > low {
			share = float64(framework.MaxScore) * (float64(scores[i].Score-low) / float64(top-low))
		}
		scores[i].Score = int64(share)
	}
	return nil
}
