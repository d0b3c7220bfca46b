package devices

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

// claims are ResourceClaims as the API shows them, with what this scheduler knows better laid over.
type claims struct {
	seen resourcelisters.ResourceClaimLister

	mu      sync.Mutex
	assumed map[string]*resourceapi.ResourceClaim // by namespace/name: written here, perhaps not yet seen
	pending map[types.UID]*promise                // decided, not written
	changed chan struct{}                         // closed at the next change
	shown   map[types.UID]*resourceapi.ResourceClaim
	taken   taken

	next   func(before, after any) // told of changes of claims, after they count; set before the informers start
	synced cache.InformerSynced
}

type promise struct {
	claim *resourceapi.ResourceClaim
	users int
}

var _ framework.ResourceClaimTracker = (*claims)(nil)

func newClaims(informer resourceinformers.ResourceClaimInformer) (*claims, error) {
	c := &claims{seen: informer.Lister(), assumed: map[string]*resourceapi.ResourceClaim{}, pending: map[types.UID]*promise{}, changed: make(chan struct{}),
		shown: map[types.UID]*resourceapi.ResourceClaim{}, taken: newTaken()}
	reg, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			c.saw(obj, false)
			c.tell(nil, obj)
		},
		UpdateFunc: func(was, obj any) {
			c.saw(obj, false)
			c.tell(was, obj)
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			c.saw(obj, true)
			c.tell(obj, nil)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watching resource claims: %w", err)
	}
	c.synced = reg.HasSynced
	return c, nil
}

// tell passes a change on, now that it counts: who is woken by it finds the devices free.
func (c *claims) tell(before, after any) {
	if c.next != nil {
		c.next(before, after)
	}
}

func keyOf(c *resourceapi.ResourceClaim) string { return c.Namespace + "/" + c.Name }

// newer tells whether a version is later than another.
func newer(a, b *resourceapi.ResourceClaim) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return a.UID == b.UID && err == nil && order > 0
}

// saw drops what was assumed when the API shows it, or something newer, or the claim is gone.
func (c *claims) saw(obj any, gone bool) {
	is, ok := obj.(*resourceapi.ResourceClaim)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ours := c.assumed[keyOf(is)]; ours != nil && (gone || !newer(ours, is)) {
		delete(c.assumed, keyOf(is))
	}
	c.shown[is.UID] = is
	if gone {
		delete(c.shown, is.UID)
	}
	c.recount(is)
	close(c.changed)
	c.changed = make(chan struct{})
}

// recount takes in what a claim has now: what was written here if the API does not show it yet, what the API shows, or what is only decided.
func (c *claims) recount(claim *resourceapi.ResourceClaim) {
	is := c.shown[claim.UID]
	if ours := c.assumed[keyOf(claim)]; ours != nil && ours.UID == claim.UID && (is == nil || newer(ours, is)) {
		is = ours
	}
	var has *resourceapi.AllocationResult
	if is != nil {
		has = is.Status.Allocation
	}
	if p := c.pending[claim.UID]; p != nil && has == nil {
		has = p.claim.Status.Allocation
	}
	c.taken.set(claim.UID, has)
}

// sawSlice takes in a slice with taint rules applied; was and is are nil where there was or is none.
func (c *claims) sawSlice(was, is *resourceapi.ResourceSlice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken.pools.SetSlice(was, is)
}

// Since lists nodes whose devices changed.
func (c *claims) Since(clock int64) (nodes []string, now int64, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken.pools.Since(clock)
}

// Apart tells whether no device can be reached from several nodes.
func (c *claims) Apart() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken.pools.Apart()
}

// Of gives what may matter to a node.
func (c *claims) Of(node string) ([]*resourceapi.ResourceSlice, *structured.AllocatedState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken.pools.Of(node)
}

// change is closed when any claim changes.
func (c *claims) change() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// List gives all claims.
func (c *claims) List() ([]*resourceapi.ResourceClaim, error) {
	all, err := c.seen.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	left := maps.Clone(c.assumed)
	out := make([]*resourceapi.ResourceClaim, 0, len(all))
	for _, is := range all {
		if ours := left[keyOf(is)]; ours != nil && newer(ours, is) {
			is = ours
		}
		delete(left, keyOf(is))
		out = append(out, is)
	}
	for _, ours := range left { // made here, and not seen yet
		out = append(out, ours)
	}
	return out, nil
}

// Get gives one claim. The error has upstream's text.
func (c *claims) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	is, err := c.seen.ResourceClaims(namespace).Get(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	ours := c.assumed[namespace+"/"+name]
	switch {
	case ours != nil && (err != nil || newer(ours, is)):
		return ours, nil
	case err != nil:
		return nil, dynamicresources.NoClaim(namespace, name)
	}
	return is, nil
}

// ListAllAllocatedDevices gives the devices that one claim alone has.
func (c *claims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	state, err := c.GatherAllocatedState()
	if err != nil {
		return nil, err
	}
	return state.AllocatedDevices, nil
}

// GatherAllocatedState gives what claims have, those included that are only decided. It is for reading.
func (c *claims) GatherAllocatedState() (*structured.AllocatedState, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken.pools.Taken(), nil
}

// SignalClaimPendingAllocation keeps an allocation for a claim until it is written.
func (c *claims) SignalClaimPendingAllocation(uid types.UID, claim *resourceapi.ResourceClaim) error {
	if claim == nil || claim.Status.Allocation == nil {
		return fmt.Errorf("claim %s has no allocation to keep", uid)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pending[uid]; p != nil {
		p.users++
		return nil
	}
	c.pending[uid] = &promise{claim: claim, users: 1}
	c.recount(claim)
	return nil
}

// GetPendingAllocation gives what is kept for a claim; nil for nothing.
func (c *claims) GetPendingAllocation(uid types.UID) *resourceapi.AllocationResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pending[uid]; p != nil {
		return p.claim.Status.Allocation
	}
	return nil
}

// decided are the allocations that are kept.
func (c *claims) decided() map[types.UID]resourceapi.AllocationResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[types.UID]resourceapi.AllocationResult, len(c.pending))
	for uid, p := range c.pending {
		out[uid] = *p.claim.Status.Allocation.DeepCopy()
	}
	return out
}

// MaybeRemoveClaimPendingAllocation lets it go when nobody else uses it, or in any case.
func (c *claims) MaybeRemoveClaimPendingAllocation(uid types.UID, force bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pending[uid]
	if p == nil {
		return false
	}
	if p.users--; p.users > 0 && !force {
		return false
	}
	delete(c.pending, uid)
	c.recount(p.claim)
	return true
}

// AssumeClaimAfterAPICall shows a claim as the API answered it.
func (c *claims) AssumeClaimAfterAPICall(claim *resourceapi.ResourceClaim) error {
	is, err := c.seen.ResourceClaims(claim.Namespace).Get(claim.Name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && !newer(claim, is) {
		return nil
	}
	c.assumed[keyOf(claim)] = claim
	c.recount(claim)
	return nil
}

// AssumedClaimRestore shows the claim as the API has it again.
func (c *claims) AssumedClaimRestore(namespace, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ours := c.assumed[namespace+"/"+name]
	delete(c.assumed, namespace+"/"+name)
	if ours != nil {
		c.recount(ours)
	}
}
