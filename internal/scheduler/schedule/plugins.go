package schedule

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/reason"
)

// PluginSet holds the plugins of one profile that filter and score nodes, each list in the order
// they are called.
type PluginSet struct {
	Profile   string
	PreFilter []framework.PreFilterPlugin
	Filter    []framework.FilterPlugin
	PreScore  []framework.PreScorePlugin
	Score     []WeightedScorePlugin
}

// WeightedScorePlugin is a score plugin and the weight of its scores.
type WeightedScorePlugin struct {
	framework.ScorePlugin
	Weight int64
}

// WeightedPlugin is a plugin and its weight; a weight of 0 counts as 1.
type WeightedPlugin struct {
	Plugin framework.Plugin
	Weight int64
}

// NewPluginSet lists plugins at every point they implement, in the order given.
func NewPluginSet(profile string, seats ...WeightedPlugin) *PluginSet {
	j := &PluginSet{Profile: profile}
	for _, s := range seats {
		if p, ok := s.Plugin.(framework.PreFilterPlugin); ok {
			j.PreFilter = append(j.PreFilter, p)
		}
		if p, ok := s.Plugin.(framework.FilterPlugin); ok {
			j.Filter = append(j.Filter, p)
		}
		if p, ok := s.Plugin.(framework.PreScorePlugin); ok {
			j.PreScore = append(j.PreScore, p)
		}
		if p, ok := s.Plugin.(framework.ScorePlugin); ok {
			j.Score = append(j.Score, WeightedScorePlugin{p, max(s.Weight, 1)})
		}
	}
	return j
}

// Explainer is what a plugin implements to give its refusal of a node with numbers and a remedy. It
// is called only after its Filter refused that node, with the same state.
type Explainer interface {
	Explain(ctx context.Context, state framework.CycleState, p *v1.Pod, node framework.NodeInfo) Explanation
}

// Explanation is a refusal for a person: stable code, quantities, and the smallest change that
// lifts it.
type Explanation struct {
	Code   reason.Code
	Detail string
	Fix    string
	Short  []journal.Shortage
}
