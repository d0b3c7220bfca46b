package dramanager

import (
	"fmt"
	"maps"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
)

// claimTracker are the ResourceClaims as the informer has them, covered by what this scheduler has
// written or decided since. Any goroutine may call its methods.
type claimTracker struct {
	lister resourcelisters.ResourceClaimLister

	mu        sync.Mutex
	assumed   map[string]*resourceapi.ResourceClaim // by namespace/name: written here, perhaps not yet seen
	inFlight  map[types.UID]*inFlightAllocation     // decided, not written
	changed   chan struct{}                         // closed at the next change
	apiClaims map[types.UID]*resourceapi.ResourceClaim
	allocated allocatedDevices

	handler func(before, after any) // called for changes of claims, after they count; set before the informers start
	synced  cache.InformerSynced
}

type inFlightAllocation struct {
	claim *resourceapi.ResourceClaim
	users int
}

var _ framework.ResourceClaimTracker = (*claimTracker)(nil)

func newClaimTracker(informer resourceinformers.ResourceClaimInformer) (*claimTracker, error) {
	c := &claimTracker{lister: informer.Lister(), assumed: map[string]*resourceapi.ResourceClaim{},
		inFlight: map[types.UID]*inFlightAllocation{}, changed: make(chan struct{}),
		apiClaims: map[types.UID]*resourceapi.ResourceClaim{}, allocated: newAllocatedDevices()}
	reg, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			c.claimChanged(obj, false)
			c.notify(nil, obj)
		},
		UpdateFunc: func(was, obj any) {
			c.claimChanged(obj, false)
			c.notify(was, obj)
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			c.claimChanged(obj, true)
			c.notify(obj, nil)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watching resource claims: %w", err)
	}
	c.synced = reg.HasSynced
	return c, nil
}

// notify calls the handler, now that the change counts: Pods that it moves find the devices free.
func (c *claimTracker) notify(before, after any) {
	if c.handler != nil {
		c.handler(before, after)
	}
}

func keyOf(c *resourceapi.ResourceClaim) string { return c.Namespace + "/" + c.Name }

// isNewer tells whether a version is later than another.
func isNewer(a, b *resourceapi.ResourceClaim) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return a.UID == b.UID && err == nil && order > 0
}

// claimChanged drops what was assumed of a claim when the informer has it, or something newer, or
// the claim is gone.
func (c *claimTracker) claimChanged(obj any, gone bool) {
	is, ok := obj.(*resourceapi.ResourceClaim)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ours := c.assumed[keyOf(is)]; ours != nil && (gone || !isNewer(ours, is)) {
		delete(c.assumed, keyOf(is))
	}
	c.apiClaims[is.UID] = is
	if gone {
		delete(c.apiClaims, is.UID)
	}
	c.updateAllocated(is)
	close(c.changed)
	c.changed = make(chan struct{})
}

// updateAllocated counts the devices that a claim has now: as written here if the informer has not
// seen it yet, as the informer has it, or as only decided.
func (c *claimTracker) updateAllocated(claim *resourceapi.ResourceClaim) {
	is := c.apiClaims[claim.UID]
	if ours := c.assumed[keyOf(claim)]; ours != nil && ours.UID == claim.UID && (is == nil || isNewer(ours, is)) {
		is = ours
	}
	var has *resourceapi.AllocationResult
	if is != nil {
		has = is.Status.Allocation
	}
	if p := c.inFlight[claim.UID]; p != nil && has == nil {
		has = p.claim.Status.Allocation
	}
	c.allocated.set(claim.UID, has)
}

// sliceChanged takes in a slice with taint rules applied; was and is are nil where there was or is
// none.
func (c *claimTracker) sliceChanged(was, is *resourceapi.ResourceSlice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allocated.pools.SetSlice(was, is)
}

// Since lists nodes whose devices changed.
func (c *claimTracker) Since(clock int64) (nodes []string, now int64, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.allocated.pools.Since(clock)
}

// AllNodeLocal tells whether no device can be reached from several nodes.
func (c *claimTracker) AllNodeLocal() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.allocated.pools.AllNodeLocal()
}

// DevicesOf gives what may matter to a node.
func (c *claimTracker) DevicesOf(node string) ([]*resourceapi.ResourceSlice, *structured.AllocatedState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.allocated.pools.DevicesOf(node)
}

// changeSignal is closed when any claim changes.
func (c *claimTracker) changeSignal() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// List gives all claims.
func (c *claimTracker) List() ([]*resourceapi.ResourceClaim, error) {
	all, err := c.lister.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	left := maps.Clone(c.assumed)
	out := make([]*resourceapi.ResourceClaim, 0, len(all))
	for _, is := range all {
		if ours := left[keyOf(is)]; ours != nil && isNewer(ours, is) {
			is = ours
		}
		delete(left, keyOf(is))
		out = append(out, is)
	}
	for _, ours := range left { // created here, and not seen yet
		out = append(out, ours)
	}
	return out, nil
}

// Get gives one claim. The error has upstream's text.
func (c *claimTracker) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	is, err := c.lister.ResourceClaims(namespace).Get(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	ours := c.assumed[namespace+"/"+name]
	switch {
	case ours != nil && (err != nil || isNewer(ours, is)):
		return ours, nil
	case err != nil:
		return nil, dynamicresources.ClaimNotFound(namespace, name)
	}
	return is, nil
}

// ListAllAllocatedDevices gives the devices that one claim alone has.
func (c *claimTracker) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	state, err := c.GatherAllocatedState()
	if err != nil {
		return nil, err
	}
	return state.AllocatedDevices, nil
}

// GatherAllocatedState gives the devices that claims have, those included that are only decided.
// The caller must not change it.
func (c *claimTracker) GatherAllocatedState() (*structured.AllocatedState, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.allocated.pools.Allocated(), nil
}

// SignalClaimPendingAllocation keeps an allocation for a claim until it is written.
func (c *claimTracker) SignalClaimPendingAllocation(uid types.UID, claim *resourceapi.ResourceClaim) error {
	if claim == nil || claim.Status.Allocation == nil {
		return fmt.Errorf("claim %s has no allocation to keep", uid)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.inFlight[uid]; p != nil {
		p.users++
		return nil
	}
	c.inFlight[uid] = &inFlightAllocation{claim: claim, users: 1}
	c.updateAllocated(claim)
	return nil
}

// GetPendingAllocation is the allocation kept for a claim; nil when there is none.
func (c *claimTracker) GetPendingAllocation(uid types.UID) *resourceapi.AllocationResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.inFlight[uid]; p != nil {
		return p.claim.Status.Allocation
	}
	return nil
}

// inFlightAllocations are the allocations that are kept.
func (c *claimTracker) inFlightAllocations() map[types.UID]resourceapi.AllocationResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[types.UID]resourceapi.AllocationResult, len(c.inFlight))
	for uid, p := range c.inFlight {
		out[uid] = *p.claim.Status.Allocation.DeepCopy()
	}
	return out
}

// MaybeRemoveClaimPendingAllocation drops the allocation kept for a claim when no other Pod shares
// it, or in any case.
func (c *claimTracker) MaybeRemoveClaimPendingAllocation(uid types.UID, force bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.inFlight[uid]
	if p == nil {
		return false
	}
	if p.users--; p.users > 0 && !force {
		return false
	}
	delete(c.inFlight, uid)
	c.updateAllocated(p.claim)
	return true
}

// AssumeClaimAfterAPICall has the claim seen as the API server answered, until the informer has it.
func (c *claimTracker) AssumeClaimAfterAPICall(claim *resourceapi.ResourceClaim) error {
	is, err := c.lister.ResourceClaims(claim.Namespace).Get(claim.Name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && !isNewer(claim, is) {
		return nil
	}
	c.assumed[keyOf(claim)] = claim
	c.updateAllocated(claim)
	return nil
}

// AssumedClaimRestore has the claim seen as the informer has it again.
func (c *claimTracker) AssumedClaimRestore(namespace, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ours := c.assumed[namespace+"/"+name]
	delete(c.assumed, namespace+"/"+name)
	if ours != nil {
		c.updateAllocated(ours)
	}
}
