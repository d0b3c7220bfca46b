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

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// Plan is what has to be written before a Pod can be bound.
type Plan struct {
	Node    string
	Wait    time.Duration // the most that devices may take to become ready
	Claims  []ClaimAllocation
	Mapping []v1.ContainerExtendedResourceRequest // of the claim for extended resources
}

// ClaimAllocation is one claim of the plan.
type ClaimAllocation struct {
	Claim      *resourceapi.ResourceClaim    // as the API had it; BindClaims puts in what it has then
	Allocation *resourceapi.AllocationResult // nil: it is allocated, and the Pod is added to those it is reserved for
	Create     bool                          // the claim does not exist yet
	pendingUID types.UID                     // what the manager knows the allocation as
}

// Reserve keeps the chosen node's devices from other Pods until the API shows who has them.
func (pl *Plugin) Reserve(ctx context.Context, state framework.CycleState, p *v1.Pod, node string) *framework.Status {
	w, err := cycleStateOf(state)
	if errors.Is(err, framework.ErrNotFound) {
		return nil
	}
	if err != nil {
		return framework.AsStatus(err)
	}
	w.plan = &Plan{Node: node, Wait: pl.bindingTimeout}
	for i, c := range w.claims {
		if !slices.Contains(w.unallocated, i) && (!resourceclaim.IsReservedForPod(p, c, false) ||
			needsBindingConditions(c.Status.Allocation)) {
			w.plan.Claims = append(w.plan.Claims, ClaimAllocation{Claim: c})
		}
	}
	s := w.allocations[node]
	if w.cachedShape != nil {
		if s, err = pl.allocateAgain(ctx, w, schedule.SnapshotOf(state), node); err != nil {
			return framework.AsStatus(err)
		}
	}
	if s == nil || len(s.results) < len(w.unallocated) {
		return framework.AsStatus(errors.New("claim allocation not found for node"))
	}
	for k, i := range w.unallocated {
		w.plan.Claims = append(w.plan.Claims, ClaimAllocation{Claim: w.claims[i], Allocation: &s.results[k],
			pendingUID: w.claims[i].UID})
	}
	if s.specialClaim != nil {
		w.plan.Claims = append(w.plan.Claims,
			ClaimAllocation{Claim: s.specialClaim, Allocation: &s.results[len(w.unallocated)], Create: true,
				pendingUID: s.specialClaim.UID})
		w.plan.Mapping = s.mapping
	}
	for _, item := range w.plan.Claims {
		if item.Allocation == nil {
			continue
		}
		as := item.Claim.DeepCopy()
		as.Status.Allocation = item.Allocation
		if err := pl.draManager.ResourceClaims().SignalClaimPendingAllocation(item.pendingUID, as); err != nil {
			return framework.AsStatus(fmt.Errorf("internal error, couldn't signal allocation for claim %s",
				item.Claim.Name))
		}
	}
	return nil
}

// allocateAgain asks the allocator for the devices of a node of which it is kept that it has some.
func (pl *Plugin) allocateAgain(ctx context.Context, w *cycleState, snap *snapshot.Snapshot,
	node string) (*nodeAllocation, error) {
	if snap == nil || snap.Node(node) == nil {
		return nil, fmt.Errorf("node %q is not in the snapshot", node)
	}
	n := snap.Node(node).Node()
	results, no := pl.runAllocator(ctx, w, nodeQuery{n, pl.devicesFor(w, node), w.claimsFor(nil)})
	if !no.IsSuccess() { // a claim of another scheduler got them since: the next Pod finds the node with another look
		return nil, fmt.Errorf("devices of node %q are not to be had any more: %s", node, no.Message())
	}
	return &nodeAllocation{results: results}, nil
}

// needsBindingConditions tells whether devices must say that they are ready before the Pod is bound
// (KEP-5007).
func needsBindingConditions(a *resourceapi.AllocationResult) bool {
	return a != nil && slices.ContainsFunc(a.Devices.Results,
		func(r resourceapi.DeviceRequestAllocationResult) bool { return len(r.BindingConditions) > 0 })
}

// Unreserve gives back what Reserve and PreBind took for the Pod: assumed allocations at once, and
// through the API the claim that was made and the reservations that were written. It waits for
// these writes and cannot fail; it may be called without a Reserve.
func (pl *Plugin) Unreserve(ctx context.Context, state framework.CycleState, p *v1.Pod, _ string) {
	w, err := cycleStateOf(state)
	if err != nil || w.plan == nil {
		return
	}
	for _, item := range w.plan.Claims {
		c := item.Claim
		if item.Allocation != nil && pl.draManager.ResourceClaims().MaybeRemoveClaimPendingAllocation(item.pendingUID,
			false) {
			pl.draManager.ResourceClaims().AssumedClaimRestore(c.Namespace, c.Name)
		}
		if pl.claimWriter == nil {
			continue
		}
		switch {
		case item.Create && c.Name != specialClaimUID:
			pl.claimWriter.DeleteClaim(ctx, c)
		case c.Status.Allocation != nil && resourceclaim.IsReservedForPod(p, c, false):
			pl.claimWriter.Unreserve(ctx, p, c)
		}
	}
}

// PreBindPreFlight skips Pods with nothing to write.
func (pl *Plugin) PreBindPreFlight(_ context.Context, state framework.CycleState, _ *v1.Pod,
	_ string) (*framework.PreBindPreFlightResult, *framework.Status) {
	w, err := cycleStateOf(state)
	if err != nil || w.plan == nil || len(w.plan.Claims) == 0 || pl.claimWriter == nil {
		return nil, framework.NewStatus(framework.Skip)
	}
	return &framework.PreBindPreFlightResult{AllowParallel: true}, nil
}

// PreBind writes the Pod's allocations and reservations to its claims, and waits for the answers.
// An Error status means that some may be written: Unreserve takes them back.
func (pl *Plugin) PreBind(ctx context.Context, state framework.CycleState, p *v1.Pod, _ string) *framework.Status {
	w, err := cycleStateOf(state)
	if err != nil || w.plan == nil || pl.claimWriter == nil {
		return nil
	}
	err = pl.claimWriter.BindClaims(ctx, p, w.plan)
	for _, item := range w.plan.Claims {
		if item.Allocation != nil {
			pl.draManager.ResourceClaims().MaybeRemoveClaimPendingAllocation(item.pendingUID, false)
		}
	}
	if err != nil {
		return framework.AsStatus(err)
	}
	return nil
}
