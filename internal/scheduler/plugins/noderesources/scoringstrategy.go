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

// scoredResource is a resource that counts for the score of a Pod: what the Pod requests of it, and
// its weight.
type scoredResource struct {
	name            v1.ResourceName
	request, weight int64
}

// scoredResources leaves out resources accounted by name that the Pod does not request.
func scoredResources(specs []config.ResourceSpec, requests *fit.Vector) []scoredResource {
	out := make([]scoredResource, 0, len(specs))
	for i := range specs {
		name := v1.ResourceName(specs[i].Name)
		if n := requests.Get(name); n != 0 || !fit.IsScalar(name) {
			out = append(out, scoredResource{name, n, specs[i].Weight})
		}
	}
	return out
}

// weightedSum adds up what resources score.
type weightedSum struct{ sum, weights int64 }

// add counts what a resource scores, unless zeros do not count. A resource of which a node has none
// is not added. It is small so that it is compiled into the loop over rows.
func (s *resourceScorer) add(to *weightedSum, score, weight int64) {
	if score == 0 && s.skipZero {
		return
	}
	to.sum += score * weight
	to.weights += weight
}

// mean is the score of a node, 0 when it has none of the resources.
func (s *resourceScorer) mean(of *weightedSum) int64 {
	if of.weights == 0 {
		return 0
	}
	return s.weightedMean(of.sum, of.weights)
}

// score is the weighted mean over the resources that the node has and that count for the Pod.
func (s *resourceScorer) score(scored []scoredResource, n framework.NodeInfo) int64 {
	has, used, nonZero := snapshot.VectorOf(n.GetAllocatable()), snapshot.VectorOf(n.GetRequested()),
		snapshot.VectorOf(n.GetNonZeroRequested())
	var sum weightedSum
	for i := range scored {
		r := &scored[i]
		of := used
		if r.name == v1.ResourceCPU || r.name == v1.ResourceMemory {
			of = nonZero
		}
		if allocatable := has.Get(r.name); allocatable != 0 {
			s.add(&sum, s.scoreOf(of.Get(r.name)+r.request, allocatable), r.weight)
		}
	}
	return s.mean(&sum)
}

// preScoreState are the resources that count for a Pod.
type preScoreState []scoredResource

// Clone shares: nothing changes it.
func (s preScoreState) Clone() framework.StateData { return s }

// scoredFor reads what PreScore noted.
func scoredFor(state framework.CycleState, key framework.StateKey) (preScoreState, bool) {
	v, err := state.Read(key)
	s, ok := v.(preScoreState)
	return s, err == nil && ok
}

func (s *resourceScorer) scoredFor(p *v1.Pod) preScoreState {
	requests := snapshot.RequestsNonZero(p) // with defaults for containers that request nothing
	return scoredResources(s.resources, &requests)
}

// PreScore sums the Pod's requests once.
func (f *Fit) PreScore(_ context.Context, state framework.CycleState, p *v1.Pod,
	_ []framework.NodeInfo) *framework.Status {
	state.Write(fitKey, f.scoredFor(p))
	return nil
}

// Score applies the strategy.
func (f *Fit) Score(_ context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) (int64, *framework.Status) {
	scored, ok := scoredFor(state, fitKey)
	if !ok {
		scored = f.scoredFor(p)
	}
	return f.score(scored, n), nil
}

// ScoreExtensions has none: scores are absolute.
func (*Fit) ScoreExtensions() framework.ScoreExtensions { return nil }
