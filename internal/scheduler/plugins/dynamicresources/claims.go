package dynamicresources

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// errNotAllocated is why a scheduler that knows no devices refuses a Pod with claims.
func errNotAllocated(p *v1.Pod) error {
	return fmt.Errorf("cannot allocate resource claim %q: the API server does not serve resource.k8s.io/v1",
		p.Spec.ResourceClaims[0].Name)
}

// claimsOf finds the claims that the Pod names or that were made from templates for it. The error
// is why it has to wait.
func (pl *Plugin) claimsOf(p *v1.Pod) ([]*resourceapi.ResourceClaim, error) {
	if len(p.Spec.ResourceClaims) == 0 {
		return nil, nil
	}
	if pl.draManager == nil {
		return nil, errNotAllocated(p)
	}
	out := make([]*resourceapi.ResourceClaim, 0, len(p.Spec.ResourceClaims))
	for i := range p.Spec.ResourceClaims {
		name, ours, err := resourceclaim.Name(p, &p.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if name == nil { // the template needed no claim
			continue
		}
		claim, err := pl.draManager.ResourceClaims().Get(p.Namespace, *name)
		if err != nil {
			return nil, err
		}
		if claim.DeletionTimestamp != nil {
			return nil, fmt.Errorf("resourceclaim %q is being deleted", claim.Name)
		}
		if ours {
			if err := resourceclaim.IsForPod(p, claim, false); err != nil {
				return nil, err
			}
		}
		out = append(out, claim)
	}
	return out, nil
}

// PreEnqueue keeps a Pod out of the queue until its claims are there.
func (pl *Plugin) PreEnqueue(_ context.Context, p *v1.Pod) *framework.Status {
	if _, err := pl.claimsOf(p); err != nil {
		return unresolvable(err.Error())
	}
	return nil
}

// PreFilter looks the claims up, and what there is to allocate from.
func (pl *Plugin) PreFilter(ctx context.Context, state framework.CycleState, p *v1.Pod,
	nodes []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	w, s := pl.newCycleState(p)
	if s != nil {
		return nil, s
	}
	w.cachedShape = pl.nodeCache.cachedShapeOf(w, schedule.SnapshotOf(state))
	if (len(w.unallocated) > 0 || w.extended != nil) && (w.cachedShape == nil || !pl.nodeCache.pools.AllNodeLocal()) {
		if err := pl.makeAllocator(ctx, w); err != nil {
			return nil, framework.AsStatus(err)
		}
	}
	if w.cachedShape == nil {
		w.allocations = make(map[string]*nodeAllocation, len(nodes))
		seats := make([]nodeAllocation, len(nodes))
		for i, n := range nodes {
			w.allocations[n.Node().Name] = &seats[i]
		}
	}
	state.Write(stateKey, w)
	return nil, nil
}

// newCycleState looks the claims up and sorts them.
func (pl *Plugin) newCycleState(p *v1.Pod) (*cycleState, *framework.Status) {
	claims, err := pl.claimsOf(p)
	if err != nil {
		return nil, unresolvable(err.Error())
	}
	w := &cycleState{claims: claims, selectors: make([]*nodeaffinity.NodeSelector, len(claims))}
	if w.extended, err = pl.extendedOf(p); err != nil {
		return nil, framework.AsStatus(err)
	}
	if len(claims) == 0 && w.extended == nil {
		return nil, framework.NewStatus(framework.Skip)
	}
	for i, c := range claims {
		if s := pl.checkClaim(w, i, c); s != nil {
			return nil, s
		}
	}
	return w, nil
}

// PreFilterExtensions has none: devices stay with the claims of Pods that would leave.
func (*Plugin) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// checkClaim sorts a claim in: where its devices can be reached from, or that it needs some, of
// classes that are there.
func (pl *Plugin) checkClaim(w *cycleState, i int, c *resourceapi.ResourceClaim) *framework.Status {
	if a := c.Status.Allocation; a != nil {
		if a.NodeSelector == nil {
			return nil
		}
		selector, err := nodeaffinity.NewNodeSelector(a.NodeSelector)
		if err != nil {
			return framework.AsStatus(err)
		}
		w.selectors[i] = selector
		return nil
	}
	w.unallocated = append(w.unallocated, i)
	if pl.draManager.ResourceClaims().GetPendingAllocation(c.UID) != nil {
		return unresolvable(fmt.Sprintf("resource claim %s is in the process of being allocated", keyOf(c)))
	}
	for j := range c.Spec.Devices.Requests {
		r := &c.Spec.Devices.Requests[j]
		requests := deviceRequestsOf(r)
		if len(requests) == 0 {
			return unresolvable(fmt.Sprintf("resource claim %s, request %s: unknown request type", keyOf(c), r.Name))
		}
		for _, a := range requests {
			class, s := pl.deviceClassOf(a)
			if s != nil {
				return s
			}
			w.classes = append(w.classes, class)
		}
	}
	return nil
}

func (pl *Plugin) deviceClassOf(a deviceRequest) (*resourceapi.DeviceClass, *framework.Status) {
	if a.class == "" {
		return nil, framework.AsStatus(fmt.Errorf("request %s: unsupported request type", a.name))
	}
	class, err := pl.draManager.DeviceClasses().Get(a.class)
	switch {
	case apierrors.IsNotFound(err):
		return nil, unresolvable(fmt.Sprintf("request %s: device class %s does not exist", a.name, a.class))
	case err != nil:
		return nil, framework.AsStatus(fmt.Errorf("request %s: look up device class: %w", a.name, err))
	}
	return class, nil
}

// makeAllocator makes the allocator from all that is there and that is taken.
func (pl *Plugin) makeAllocator(ctx context.Context, w *cycleState) error {
	taken, err := pl.draManager.ResourceClaims().GatherAllocatedState()
	if err != nil {
		return err
	}
	there, err := pl.draManager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return err
	}
	w.devices = &deviceState{slices: there, allocated: taken}
	w.allocator, err = pl.newAllocator(ctx, w.devices)
	return err
}

func (pl *Plugin) newAllocator(ctx context.Context, s *deviceState) (structured.Allocator, error) {
	return structured.NewAllocator(ctx, allocatorFeatures, *s.allocated, pl.draManager.DeviceClasses(), s.slices,
		pl.celCache)
}

// devicesFor is what a node's devices are taken from; nil when nothing has to be allocated.
func (pl *Plugin) devicesFor(w *cycleState, node string) *deviceState {
	if w.devices == nil && w.cachedShape != nil {
		there, taken := pl.nodeCache.pools.DevicesOf(node)
		return &deviceState{there, taken}
	}
	return w.devices
}

// deviceRequest is a request, or one alternative of a request.
type deviceRequest struct {
	name, class string
	selectors   []resourceapi.DeviceSelector
	mode        resourceapi.DeviceAllocationMode
	count       int64
	admin       bool
	tolerations []resourceapi.DeviceToleration
}

// deviceRequestsOf lists what a request asks for: one thing, or alternatives in their order.
func deviceRequestsOf(r *resourceapi.DeviceRequest) []deviceRequest {
	if e := r.Exactly; e != nil {
		return []deviceRequest{{r.Name, e.DeviceClassName, e.Selectors, e.AllocationMode, e.Count,
			e.AdminAccess != nil && *e.AdminAccess, e.Tolerations}}
	}
	var out []deviceRequest
	for i := range r.FirstAvailable {
		s := &r.FirstAvailable[i]
		out = append(out, deviceRequest{r.Name + "/" + s.Name, s.DeviceClassName, s.Selectors, s.AllocationMode,
			s.Count, false, s.Tolerations})
	}
	return out
}

func keyOf(c *resourceapi.ResourceClaim) string { return c.Namespace + "/" + c.Name }

// PostFilter frees a claim that is allocated for nodes which do not suit the Pod otherwise, when
// nobody else has it.
func (pl *Plugin) PostFilter(ctx context.Context, state framework.CycleState, p *v1.Pod,
	statuses framework.NodeToStatusReader) (*framework.PostFilterResult, *framework.Status) {
	if isUnfiltered(statuses) {
		return nil, framework.AsStatus(framework.ErrNotFound)
	}
	w, err := cycleStateOf(state)
	if errors.Is(err, framework.ErrNotFound) {
		// without a word, as of v1.37: that no claim helps is nobody's reason
		return nil, framework.NewStatus(framework.Unschedulable)
	}
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	if pl.claimWriter != nil {
		for i := range w.claims {
			if !w.isAllocatedElsewhere(i) || !isReservedOnlyFor(w.claims[i], p) {
				continue
			}
			if err := pl.claimWriter.Deallocate(ctx, w.claims[i]); err != nil {
				return nil, framework.AsStatus(err)
			}
			return nil, framework.NewStatus(framework.Unschedulable, textFreed)
		}
		if w.extended != nil && w.extended.oldClaim != nil {
			pl.claimWriter.DeleteClaim(ctx, w.extended.oldClaim)
			return nil, framework.NewStatus(framework.Unschedulable, "deletion of ResourceClaim completed")
		}
	}
	return nil, framework.NewStatus(framework.Unschedulable)
}

// isAllocatedElsewhere tells whether a node was refused because the claim's devices cannot be
// reached from it.
func (w *cycleState) isAllocatedElsewhere(claim int) bool {
	for _, s := range w.allocations {
		for _, i := range s.unavailable {
			if i == claim {
				return true
			}
		}
	}
	return false
}

// isReservedOnlyFor tells whether nobody else than the Pod has reserved the claim.
func isReservedOnlyFor(c *resourceapi.ResourceClaim, p *v1.Pod) bool {
	r := c.Status.ReservedFor
	return len(r) == 0 || len(r) == 1 && r[0].UID == p.UID
}
