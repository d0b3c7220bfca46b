package noderesources

import (
	"context"
	"math"

	v1 "k8s.io/api/core/v1"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

const (
	// BalancedName of the plugin.
	BalancedName = "NodeResourcesBalancedAllocation"

	balancedKey framework.StateKey = "PreScore" + BalancedName

	neutral = 0.75 // share of the full score when the Pod leaves the balance as it is
	swing   = 0.5  // how much of the change in balance counts
)

// Balanced is the judge of balance.
type Balanced struct{ resources []config.ResourceSpec }

// NewBalanced makes the judge from defaulted arguments.
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
func (b *Balanced) PreScore(_ context.Context, state framework.CycleState, p *v1.Pod, _ []framework.NodeInfo) *framework.Status {
	a := &asked{snapshot.Ask(p)}
	for i := range b.resources {
		if a.Get(v1.ResourceName(b.resources[i].Name)) > 0 {
			state.Write(balancedKey, a)
			return nil
		}
	}
	return framework.NewStatus(framework.Skip)
}

// Score is 75 when the Pod changes nothing, up to 100 as it evens out the shares of the resources, down to 50 as it makes them uneven.
func (b *Balanced) Score(_ context.Context, state framework.CycleState, p *v1.Pod, n framework.NodeInfo) (int64, *framework.Status) {
	v, err := state.Read(balancedKey)
	a, ok := v.(*asked)
	if err != nil || !ok {
		a = &asked{snapshot.Ask(p)}
	}
	room, used := snapshot.VectorOf(n.GetAllocatable()), snapshot.VectorOf(n.GetRequested())
	var with, without shares
	for i := range b.resources {
		name := v1.ResourceName(b.resources[i].Name)
		if requested, allocatable, counts := totals(name, &a.Vector, used, room); counts {
			with.add(requested, allocatable)
			without.add(used.Get(name), allocatable)
		}
	}
	return balance(&with, &without), nil
}

func balance(with, without *shares) int64 {
	return int64((neutral + swing*(without.deviation()-with.deviation())) * float64(framework.MaxScore))
}

// ScoreExtensions has none: scores are absolute.
func (*Balanced) ScoreExtensions() framework.ScoreExtensions { return nil }

// SignPod signs the requests.
func (*Balanced) SignPod(_ context.Context, p *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	return signRequests(p), nil
}

// shares are requested fractions of resources, at most 1 each.
type shares struct {
	n        int
	sum, sq  float64
	low, top float64
}

func (s *shares) add(requested, allocatable int64) {
	f := min(float64(requested)/float64(allocatable), 1)
	if s.n == 0 {
		s.low, s.top = f, f
	}
	s.low, s.top = min(s.low, f), max(s.top, f)
	s.n++
	s.sum += f
	s.sq += f * f
}

// deviation is the standard deviation of the fractions, 0 for fewer than two.
func (s *shares) deviation() float64 {
	switch {
	case s.n < 2:
		return 0
	case s.n == 2:
		return (s.top - s.low) / 2
	}
	mean := s.sum / float64(s.n)
	return math.Sqrt(max(s.sq/float64(s.n)-mean*mean, 0))
}
