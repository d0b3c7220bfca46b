package dynamicresources

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// isUnfiltered tells that the cycle ended before this plugin's PreFilter: upstream then finds no
// note of its own and says that; it ends up in the Pod's condition ("… not found. not found") and
// keeps preemption, which could not help, from being tried.
func isUnfiltered(statuses framework.NodeToStatusReader) bool {
	s, ok := statuses.(*schedule.NodeStatuses)
	return ok && slices.Contains(s.NotRun, Name)
}

// Filter refuses nodes from which an allocated claim cannot be reached, or where not all others can
// be allocated.
func (pl *Plugin) Filter(ctx context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	w, err := cycleStateOf(state)
	if err != nil {
		return framework.AsStatus(err)
	}
	if w.cachedShape != nil {
		return pl.evaluateNode(ctx, w, n.Node()).status
	}
	found := &nodeAllocation{}
	for i, selector := range w.selectors {
		if selector != nil && !selector.Match(n.Node()) {
			found.unavailable = append(found.unavailable, i)
		}
	}
	var status *framework.Status
	if len(found.unavailable) == 0 {
		status = pl.allocate(ctx, allocation{w, found, p, n})
	} else {
		status = unresolvable(textUnavailable)
	}
	if s := w.allocations[n.Node().Name]; s != nil {
		*s = *found
	}
	return status
}

// allocation is one node's.
type allocation struct {
	work   *cycleState
	result *nodeAllocation
	pod    *v1.Pod
	node   framework.NodeInfo
}

// allocate looks for devices of the node for all claims that have none.
func (pl *Plugin) allocate(ctx context.Context, q allocation) *framework.Status {
	if q.work.extended != nil {
		if s := pl.allocateExtended(q.work.extended, q.result, q.pod, q.node); s != nil {
			return s
		}
	}
	claims := q.work.claimsFor(q.result.specialClaim)
	if len(claims) == 0 {
		return nil
	}
	var no *framework.Status
	n := q.node.Node()
	q.result.results, no = pl.runAllocator(ctx, q.work, nodeQuery{n, pl.devicesFor(q.work, n.Name), claims})
	return no
}

// PreScore skips when no claim offers a choice.
func (*Plugin) PreScore(_ context.Context, state framework.CycleState, _ *v1.Pod,
	_ []framework.NodeInfo) *framework.Status {
	w, err := cycleStateOf(state)
	if err != nil || !w.needsScoring() {
		return framework.NewStatus(framework.Skip)
	}
	return nil
}

func (w *cycleState) needsScoring() bool {
	for _, i := range w.unallocated {
		for _, r := range w.claims[i].Spec.Devices.Requests {
			if len(r.FirstAvailable) > 0 {
				return true
			}
		}
	}
	return false
}

// Score counts how early in their lists the alternatives stand that the node can give (KEP-4816).
func (*Plugin) Score(_ context.Context, state framework.CycleState, _ *v1.Pod,
	n framework.NodeInfo) (int64, *framework.Status) {
	w, err := cycleStateOf(state)
	if err != nil {
		return 0, framework.AsStatus(err)
	}
	if w.cachedShape != nil {
		if v := w.cachedShape.resultOf(n.Node()); v != nil {
			return v.score, nil
		}
		return 0, nil
	}
	s := w.allocations[n.Node().Name]
	if s == nil {
		return 0, nil
	}
	return w.subrequestScores(s.results), nil
}

// subrequestScores sums up what the choices for the claims are worth.
func (w *cycleState) subrequestScores(results []resourceapi.AllocationResult) int64 {
	var sum int64
	for k, i := range w.unallocated {
		if k < len(results) {
			sum += subrequestScore(w.claims[i], &results[k])
		}
	}
	return sum
}

// subrequestScore gives the first alternative of each list 8 points (the longest a list can be),
// the second 7, and so on.
func subrequestScore(c *resourceapi.ResourceClaim, a *resourceapi.AllocationResult) int64 {
	var sum int64
	for i := range c.Spec.Devices.Requests {
		r := &c.Spec.Devices.Requests[i]
		for j := range r.FirstAvailable {
			name := r.Name + "/" + r.FirstAvailable[j].Name
			if slices.ContainsFunc(a.Devices.Results,
				func(d resourceapi.DeviceRequestAllocationResult) bool { return d.Request == name }) {
				sum += int64(resourceapi.FirstAvailableDeviceRequestMaxSize - j)
				break
			}
		}
	}
	return sum
}

// ScoreExtensions normalises.
func (pl *Plugin) ScoreExtensions() framework.ScoreExtensions { return pl }

// NormalizeScore makes the best node 100.
func (*Plugin) NormalizeScore(_ context.Context, _ framework.CycleState, _ *v1.Pod,
	scores framework.NodeScoreList) *framework.Status {
	var most int64
	for _, s := range scores {
		most = max(most, s.Score)
	}
	if most == 0 {
		return nil
	}
	for i := range scores {
		scores[i].Score = scores[i].Score * framework.MaxScore / most
	}
	return nil
}
