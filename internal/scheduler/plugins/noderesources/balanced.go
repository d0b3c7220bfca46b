package noderesources

import (
	"context"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

const (
	// BalancedName of the plugin.
	BalancedName = "NodeResourcesBalancedAllocation"

	balancedKey framework.StateKey = "PreScore" + BalancedName

	minScore = framework.MaxScore / 2 // what remains when the Pod spoils the balance altogether
)

// Balanced is NodeResourcesBalancedAllocation.
type Balanced struct{ resources []config.ResourceSpec }

// NewBalanced makes the plugin from defaulted arguments.
func NewBalanced(args *config.NodeResourcesBalancedAllocationArgs) *Balanced {
	return &Balanced{resources: args.Resources}
}

var (
	_ framework.PreScorePlugin = (*Balanced)(nil)
	_ framework.ScorePlugin    = (*Balanced)(nil)
	_ framework.SignPlugin     = (*Balanced)(nil)
)

// Name is BalancedName.
func (*Balanced) Name() string { return BalancedName }

// PreScore skips Pods that ask for none of the resources.
func (b *Balanced) PreScore(_ context.Context, state framework.CycleState, p *v1.Pod,
	_ []framework.NodeInfo) *framework.Status {
	scored := b.scoredFor(p)
	if !slices.ContainsFunc(scored, func(r scoredResource) bool { return r.request > 0 }) {
		return framework.NewStatus(framework.Skip)
	}
	state.Write(balancedKey, scored)
	return nil
}

func (b *Balanced) scoredFor(p *v1.Pod) preScoreState {
	requests := snapshot.Requests(p)
	return scoredResources(b.resources, &requests)
}

// Score is 75 when the Pod changes nothing, up to 100 as it evens out the shares of the resources,
// down to 50 as it makes them uneven.
func (b *Balanced) Score(_ context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) (int64, *framework.Status) {
	scored, ok := scoredFor(state, balancedKey)
	if !ok {
		scored = b.scoredFor(p)
	}
	has, used := snapshot.VectorOf(n.GetAllocatable()), snapshot.VectorOf(n.GetRequested())
	var sum balance
	for i := range scored {
		r := &scored[i]
		if allocatable := has.Get(r.name); allocatable != 0 {
			sum.with.add(used.Get(r.name)+r.request, allocatable)
			sum.without.add(used.Get(r.name), allocatable)
		}
	}
	return sum.score(), nil
}

// balance is how evenly the resources of a node are requested, with the Pod there and without. A
// resource of which the node has none counts in neither.
type balance struct{ with, without shares }

// score counts in whole points as upstream does: a balance is rounded down before it is compared.
func (b *balance) score() int64 {
	return minScore + (framework.MaxScore/2+b.with.balance()-b.without.balance())/2
}

// ScoreExtensions has none: scores are absolute.
func (*Balanced) ScoreExtensions() framework.ScoreExtensions { return nil }

// SignPod signs the requests.
func (*Balanced) SignPod(_ context.Context, p *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	return signRequests(p), nil
}

// shares are requested fractions of resources, at most 1 each.
type shares struct {
	n     int
	first [4]float64
	more  []float64
}

func (s *shares) add(requested, allocatable int64) {
	f := 1.0 // of less than nothing, too
	if requested < allocatable {
		f = float64(requested) / float64(allocatable)
	}
	if s.n < len(s.first) {
		s.first[s.n] = f
	} else {
		s.more = append(s.more, f)
	}
	s.n++
}

// balance is 100 points for equal shares, less as they differ.
func (s *shares) balance() int64 { return int64((1 - s.deviation()) * float64(framework.MaxScore)) }

// deviation is the standard deviation of the fractions, 0 for fewer than two. The mean comes first:
// of equal fractions nothing may be left.
func (s *shares) deviation() float64 {
	switch {
	case s.n < 2:
		return 0
	case s.n == 2:
		return math.Abs(s.first[0]-s.first[1]) / 2
	}
	first, sum, squares := s.first[:min(s.n, len(s.first))], 0.0, 0.0
	for _, of := range [][]float64{first, s.more} {
		for _, f := range of {
			sum += f
		}
	}
	mean := sum / float64(s.n)
	for _, of := range [][]float64{first, s.more} {
		for _, f := range of {
			squares += (f - mean) * (f - mean)
		}
	}
	return math.Sqrt(squares / float64(s.n))
}
