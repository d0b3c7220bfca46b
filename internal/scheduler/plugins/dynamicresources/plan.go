package dynamicresources

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// Plan is what has to be written before a Pod can be bound.
type Plan struct {
	Node    string
	Wait    time.Duration // the most that devices may take to become ready
	Items   []Item
	Mapping []v1.ContainerExtendedResourceRequest // of the claim for extended resources
}

// Item is one claim of the plan.
type Item struct {
	Claim      *resourceapi.ResourceClaim    // as the API had it; Carry puts in what it has now
	Allocation *resourceapi.AllocationResult // nil: it is allocated, and the Pod is added to those it is reserved for
	Make       bool                          // the claim does not exist yet
	mark       types.UID                     // what the manager knows the allocation as
}

// Reserve keeps the chosen node's devices from other Pods until the API shows who has them.
func (pl *Plugin) Reserve(ctx context.Context, state framework.CycleState, p *v1.Pod, node string) *framework.Status {
	w, err := workOf(state)
	if errors.Is(err, framework.ErrNotFound) {
		return nil
	}
	if err != nil {
		return framework.AsStatus(err)
	}
	w.plan = &Plan{Node: node, Wait: pl.patience}
	for i, c := range w.claims {
		if !slices.Contains(w.missing, i) && (!resourceclaim.IsReservedForPod(p, c, false) || waits(c.Status.Allocation)) {
			w.plan.Items = append(w.plan.Items, Item{Claim: c})
		}
	}
	s := w.seats[node]
	if w.shelf != nil {
		if s, err = pl.seatKept(ctx, w, place.WorldOf(state), node); err != nil {
			return framework.AsStatus(err)
		}
	}
	if s == nil || len(s.results) < len(w.missing) {
		return framework.AsStatus(errors.New("claim allocation not found for node"))
	}
	for k, i := range w.missing {
		w.plan.Items = append(w.plan.Items, Item{Claim: w.claims[i], Allocation: &s.results[k], mark: w.claims[i].UID})
	}
	if s.own != nil {
		w.plan.Items = append(w.plan.Items, Item{Claim: s.own, Allocation: &s.results[len(w.missing)], Make: true, mark: s.own.UID})
		w.plan.Mapping = s.mapping
	}
	for _, item := range w.plan.Items {
		if item.Allocation == nil {
			continue
		}
		as := item.Claim.DeepCopy()
		as.Status.Allocation = item.Allocation
		if err := pl.draw.ResourceClaims().SignalClaimPendingAllocation(item.mark, as); err != nil {
			return framework.AsStatus(fmt.Errorf("internal error, couldn't signal allocation for claim %s", item.Claim.Name))
		}
	}
	return nil
}

// seatKept asks the allocator for the devices of a node of which it is kept that it has some.
func (pl *Plugin) seatKept(ctx context.Context, w *work, world *snapshot.Snapshot, node string) (*seat, error) {
	if world == nil || world.Node(node) == nil {
		return nil, fmt.Errorf("node %q is not in the snapshot", node)
	}
	n := world.Node(node).Node()
	results, no := pl.find(ctx, w, asked{n, pl.stockFor(w, node), w.claimsFor(nil)})
	if !no.IsSuccess() { // a claim of another scheduler got them since: the next Pod finds the node with another look
		return nil, fmt.Errorf("devices of node %q are not to be had any more: %s", node, no.Message())
	}
	return &seat{results: results}, nil
}

// waits tells whether devices must say that they are ready before the Pod is bound (KEP-5007).
func waits(a *resourceapi.AllocationResult) bool {
	return a != nil && slices.ContainsFunc(a.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool { return len(r.BindingConditions) > 0 })
}

// Unreserve lets the devices go.
func (pl *Plugin) Unreserve(ctx context.Context, state framework.CycleState, p *v1.Pod, _ string) {
	w, err := workOf(state)
	if err != nil || w.plan == nil {
		return
	}
	for _, item := range w.plan.Items {
		c := item.Claim
		if item.Allocation != nil && pl.draw.ResourceClaims().MaybeRemoveClaimPendingAllocation(item.mark, false) {
			pl.draw.ResourceClaims().AssumedClaimRestore(c.Namespace, c.Name)
		}
		if pl.hands == nil {
			continue
		}
		switch {
		case item.Make && c.Name != inMemory:
			pl.hands.Drop(ctx, c)
		case c.Status.Allocation != nil && resourceclaim.IsReservedForPod(p, c, false):
			pl.hands.Release(ctx, p, c)
		}
	}
}

// PreBindPreFlight skips Pods with nothing to write.
func (pl *Plugin) PreBindPreFlight(_ context.Context, state framework.CycleState, _ *v1.Pod, _ string) (*framework.PreBindPreFlightResult, *framework.Status) {
	w, err := workOf(state)
	if err != nil || w.plan == nil || len(w.plan.Items) == 0 || pl.hands == nil {
		return nil, framework.NewStatus(framework.Skip)
	}
	return &framework.PreBindPreFlightResult{AllowParallel: true}, nil
}

// PreBind writes allocations and reservations.
func (pl *Plugin) PreBind(ctx context.Context, state framework.CycleState, p *v1.Pod, _ string) *framework.Status {
	w, err := workOf(state)
	if err != nil || w.plan == nil || pl.hands == nil {
		return nil
	}
	err = pl.hands.Carry(ctx, p, w.plan)
	for _, item := range w.plan.Items {
		if item.Allocation != nil {
			pl.draw.ResourceClaims().MaybeRemoveClaimPendingAllocation(item.mark, false)
		}
	}
	if err != nil {
		return framework.AsStatus(err)
	}
	return nil
}
