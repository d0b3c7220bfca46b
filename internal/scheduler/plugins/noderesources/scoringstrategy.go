package noderesources

import (
	"context"
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod/fit"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// maxShape is the top score of a shape point in the configuration (0..10).
const maxShape = 10

// resourceScorer weighs how full a node would be.
type resourceScorer struct {
	resources    []config.ResourceSpec
	scoreOf      func(requested, allocatable int64) int64 // score of one resource
	weightedMean func(sum, weights int64) int64
	skipZero     bool // a resource that scores 0 does not count
}

func newResourceScorer(s *config.ScoringStrategy) (resourceScorer, error) {
	if s == nil {
		return resourceScorer{}, fmt.Errorf("scoringStrategy is missing")
	}
	plain := func(sum, weights int64) int64 { return sum / weights }
	switch s.Type {
	case config.LeastAllocated:
		return resourceScorer{resources: s.Resources, scoreOf: leastAllocated, weightedMean: plain}, nil
	case config.MostAllocated:
		return resourceScorer{resources: s.Resources, scoreOf: mostAllocated, weightedMean: plain}, nil
	case config.RequestedToCapacityRatio:
		if s.RequestedToCapacityRatio == nil || len(s.RequestedToCapacityRatio.Shape) == 0 {
			return resourceScorer{},
				fmt.Errorf("scoringStrategy.requestedToCapacityRatio.shape: at least one point must be specified")
		}
		rounded := func(sum, weights int64) int64 { return int64(math.Round(float64(sum) / float64(weights))) }
		return resourceScorer{resources: s.Resources,
			scoreOf: RequestedToCapacityRatio(s.RequestedToCapacityRatio.Shape), weightedMean: rounded,
			skipZero: true}, nil
	}
	return resourceScorer{},
		fmt.Errorf("scoringStrategy.type %q is not one of LeastAllocated, MostAllocated, RequestedToCapacityRatio",
			s.Type)
}

// leastAllocated: 100 on an empty resource, 0 on a full one.
func leastAllocated(requested, allocatable int64) int64 {
	if requested > allocatable {
		return 0
	}
	return (allocatable - requested) * framework.MaxScore / allocatable
}

// mostAllocated: 0 on an empty resource, 100 on a full one.
func mostAllocated(requested, allocatable int64) int64 {
	return min(requested, allocatable) * framework.MaxScore / allocatable
}

// RequestedToCapacityRatio follows straight lines between the points of a shape; what is more than
// there is, or of nothing, counts as all.
func RequestedToCapacityRatio(shape []config.UtilizationShapePoint) func(requested, allocatable int64) int64 {
	scale := framework.MaxScore / maxShape
	at := func(use int64) int64 {
		for i, p := range shape {
			if use > int64(p.Utilization) {
				continue
			}
			if i == 0 {
				return int64(p.Score) * scale
			}
			low := shape[i-1]
			from, to := int64(low.Score)*scale, int64(p.Score)*scale
			return from + (to-from)*(use-int64(low.Utilization))/(int64(p.Utilization)-int64(low.Utilization))
		}
		return int64(shape[len(shape)-1].Score) * scale
	}
	return func(requested, allocatable int64) int64 {
		if requested > allocatable || allocatable == 0 {
			return at(100)
		}
		return at(requested * 100 / allocatable)
	}
}

// score is the weighted mean over the resources that the node has and that count for the Pod.
func (s *resourceScorer) score(requests *fit.Vector, n framework.NodeInfo) int64 {
	room, used, nonZero := snapshot.VectorOf(n.GetAllocatable()), snapshot.VectorOf(n.GetRequested()),
		snapshot.VectorOf(n.GetNonZeroRequested())
	var sum, weights int64
	for i := range s.resources {
		name := v1.ResourceName(s.resources[i].Name)
		taken := used
		if name == v1.ResourceCPU || name == v1.ResourceMemory {
			taken = nonZero
		}
		requested, allocatable, counts := requestedAndAllocatable(name, requests, taken, room)
		if !counts {
			continue
		}
		one := s.scoreOf(requested, allocatable)
		if one == 0 && s.skipZero {
			continue
		}
		sum += one * s.resources[i].Weight
		weights += s.resources[i].Weight
	}
	if weights == 0 {
		return 0
	}
	return s.weightedMean(sum, weights)
}

// requestedAndAllocatable gives what would be requested of a resource with the Pod there; false
// when the node has none of it or the Pod does not ask for a scalar.
func requestedAndAllocatable(name v1.ResourceName,
	requests, used, room *fit.Vector) (requested, allocatable int64, counts bool) {
	n := requests.Get(name)
	if n == 0 && fit.IsScalar(name) {
		return 0, 0, false
	}
	allocatable = room.Get(name)
	return used.Get(name) + n, allocatable, allocatable != 0
}

// PreScore sums the Pod's requests, defaults for empty ones included, once.
func (*Fit) PreScore(_ context.Context, state framework.CycleState, p *v1.Pod,
	_ []framework.NodeInfo) *framework.Status {
	state.Write(fitKey, &preFilterState{snapshot.RequestsNonZero(p)})
	return nil
}

// Score applies the strategy.
func (f *Fit) Score(_ context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) (int64, *framework.Status) {
	v, err := state.Read(fitKey)
	a, ok := v.(*preFilterState)
	if err != nil || !ok {
		a = &preFilterState{snapshot.RequestsNonZero(p)}
	}
	return f.score(&a.Vector, n), nil
}

// ScoreExtensions has none: scores are absolute.
func (*Fit) ScoreExtensions() framework.ScoreExtensions { return nil }
