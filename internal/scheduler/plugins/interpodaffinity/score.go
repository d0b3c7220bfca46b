package interpodaffinity

import (
	"context"
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// topologyScores is what the Pods around weigh for or against each domain, by key and value.
type topologyScores map[string]map[string]int64

// Clone shares: nothing changes it after PreScore.
func (p topologyScores) Clone() framework.StateData { return p }

func (p topologyScores) add(node *v1.Node, key string, by int64) {
	value, ok := node.Labels[key]
	if !ok || by == 0 {
		return
	}
	if p[key] == nil {
		p[key] = map[string]int64{}
	}
	p[key][value] += by
}

// PreScore weighs the preferred terms of the Pod, the preferred terms of Pods with affinity that
// mean it, and their required affinity by the hard weight.
func (pl *Plugin) PreScore(_ context.Context, state framework.CycleState, p *v1.Pod,
	_ []framework.NodeInfo) *framework.Status {
	own, err := snapshot.NewPodInfo(p)
	if err != nil {
		return framework.AsStatus(fmt.Errorf("parsing pod: %w", err))
	}
	prefers := len(own.GetPreferredAffinityTerms())+len(own.GetPreferredAntiAffinityTerms()) > 0
	snap := schedule.SnapshotOf(state)
	if snap == nil || pl.ignorePreferred && !prefers {
		return framework.NewStatus(framework.Skip)
	}
	sum := topologyScores{}
	if prefers {
		for _, n := range snap.All() {
			for _, other := range n.GetPods() {
				pl.addPreferred(sum, own.GetPreferredAffinityTerms(), countedPod{other.GetPod(), n.Node(), 1})
				pl.addPreferred(sum, own.GetPreferredAntiAffinityTerms(), countedPod{other.GetPod(), n.Node(), -1})
			}
		}
	}
	affine, _ := snap.HavePodsWithAffinityList() // a snapshot's list has no error
	for _, n := range affine {
		for _, other := range n.GetPodsWithAffinity() {
			pl.addExistingPod(sum, other, p, n.Node())
		}
	}
	if len(sum) == 0 {
		return framework.NewStatus(framework.Skip)
	}
	state.Write(scoreKey, sum)
	return nil
}

func (pl *Plugin) addPreferred(sum topologyScores, terms []framework.WeightedAffinityTerm, m countedPod) {
	for i := range terms {
		if pl.matches(&terms[i].AffinityTerm, m.pod) {
			sum.add(m.node, terms[i].TopologyKey, m.sign*int64(terms[i].Weight))
		}
	}
}

// addExistingPod weighs what a Pod already there thinks of the Pod.
func (pl *Plugin) addExistingPod(sum topologyScores, other framework.PodInfo, p *v1.Pod, node *v1.Node) {
	if pl.hardWeight > 0 {
		terms := other.GetRequiredAffinityTerms()
		for i := range terms {
			if pl.matches(&terms[i], p) {
				sum.add(node, terms[i].TopologyKey, pl.hardWeight)
			}
		}
	}
	pl.addPreferred(sum, other.GetPreferredAffinityTerms(), countedPod{p, node, 1})
	pl.addPreferred(sum, other.GetPreferredAntiAffinityTerms(), countedPod{p, node, -1})
}

// Score sums the weights of the node's domains; it may be negative until normalised.
func (pl *Plugin) Score(_ context.Context, state framework.CycleState, _ *v1.Pod,
	n framework.NodeInfo) (int64, *framework.Status) {
	v, err := state.Read(scoreKey)
	if aggregate, ok := v.(aggregateScores); ok {
		return aggregate.scoreOf(n.Node()), nil
	}
	sum, ok := v.(topologyScores)
	if err != nil || !ok {
		return 0, nil
	}
	var score int64
	for key, values := range sum {
		if value, ok := n.Node().Labels[key]; ok {
			score += values[value]
		}
	}
	return score, nil
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
