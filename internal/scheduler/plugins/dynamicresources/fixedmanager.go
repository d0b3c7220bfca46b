package dynamicresources

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kube-scheduler/framework"
)

// NoAllocations is a state where every device is free.
func NoAllocations() *structured.AllocatedState {
	return &structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
}

// AddAllocation adds what an allocation takes. Admin access takes nothing.
func AddAllocation(state *structured.AllocatedState, a *resourceapi.AllocationResult) {
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		if deref(r.AdminAccess) {
			continue
		}
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		if r.ShareID == nil {
			state.AllocatedDevices.Insert(id)
			continue
		}
		state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
		if r.ConsumedCapacity != nil {
			state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
		}
	}
}

// ClaimNotFound is the error for a claim that is not there, in upstream's words.
func ClaimNotFound(namespace, name string) error {
	return fmt.Errorf("could not find v1.ResourceClaim %q", namespace+"/"+name)
}

var errFixed = errors.New("these claims are only looked at")

// FixedManager is a manager of given objects that nothing changes, for callers that filter and do
// not act.
type FixedManager struct {
	claims  []*resourceapi.ResourceClaim
	slices  []*resourceapi.ResourceSlice
	classes []*resourceapi.DeviceClass
}

var (
	_ framework.SharedDRAManager     = (*FixedManager)(nil)
	_ framework.ResourceClaimTracker = fixedClaims{}
)

// NewFixedManager gathers objects; kinds that have nothing to do with devices are passed over.
// Taint rules are not applied.
func NewFixedManager(all ...runtime.Object) *FixedManager {
	f := &FixedManager{}
	for _, obj := range all {
		switch obj := obj.(type) {
		case *resourceapi.ResourceClaim:
			f.claims = append(f.claims, obj)
		case *resourceapi.ResourceSlice:
			f.slices = append(f.slices, obj)
		case *resourceapi.DeviceClass:
			f.classes = append(f.classes, obj)
		}
	}
	return f
}

// Without is the same when some Pods are gone: claims that nobody else has reserved give their
// devices back.
func (f *FixedManager) Without(gone map[types.UID]bool) *FixedManager {
	out := &FixedManager{slices: f.slices, classes: f.classes,
		claims: make([]*resourceapi.ResourceClaim, len(f.claims))}
	for i, c := range f.claims {
		out.claims[i] = c
		left := slices.DeleteFunc(slices.Clone(c.Status.ReservedFor),
			func(r resourceapi.ResourceClaimConsumerReference) bool { return gone[r.UID] })
		if len(left) == len(c.Status.ReservedFor) {
			continue
		}
		c = c.DeepCopy()
		if c.Status.ReservedFor = left; len(left) == 0 {
			c.Status.Allocation = nil
		}
		out.claims[i] = c
	}
	return out
}

// ResourceClaims gives the claims.
func (f *FixedManager) ResourceClaims() framework.ResourceClaimTracker { return fixedClaims{f} }

// ResourceSlices gives the slices.
func (f *FixedManager) ResourceSlices() framework.ResourceSliceLister { return fixedSlices{f} }

// DeviceClasses gives the classes.
func (f *FixedManager) DeviceClasses() framework.DeviceClassLister { return fixedClasses{f} }

// DeviceClassResolver finds classes by extended resource.
func (f *FixedManager) DeviceClassResolver() framework.DeviceClassResolver { return fixedClasses{f} }

type fixedSlices struct{ *FixedManager }

// ListWithDeviceTaintRules lists them as they are.
func (f fixedSlices) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	return f.slices, nil
}

type fixedClasses struct{ *FixedManager }

// List lists all.
func (f fixedClasses) List() ([]*resourceapi.DeviceClass, error) { return f.classes, nil }

// Get finds one.
func (f fixedClasses) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, c := range f.classes {
		if c.Name == name {
			return c, nil
		}
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclass"), name)
}

// GetDeviceClass finds the class that serves an extended resource: the youngest of several.
func (f fixedClasses) GetDeviceClass(name v1.ResourceName) *resourceapi.DeviceClass {
	var found *resourceapi.DeviceClass
	for _, c := range f.classes {
		if string(name) != resourceapi.ResourceDeviceClassPrefix+c.Name &&
			deref(c.Spec.ExtendedResourceName) != string(name) {
			continue
		}
		if found == nil || found.CreationTimestamp.Before(&c.CreationTimestamp) {
			found = c
		}
	}
	return found
}

type fixedClaims struct{ *FixedManager }

// List lists all.
func (f fixedClaims) List() ([]*resourceapi.ResourceClaim, error) { return f.claims, nil }

// Get finds one.
func (f fixedClaims) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	for _, c := range f.claims {
		if c.Namespace == namespace && c.Name == name {
			return c, nil
		}
	}
	return nil, ClaimNotFound(namespace, name)
}

// ListAllAllocatedDevices gives the devices that one claim alone has.
func (f fixedClaims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	state, err := f.GatherAllocatedState()
	return state.AllocatedDevices, err
}

// GatherAllocatedState sums up what claims have.
func (f fixedClaims) GatherAllocatedState() (*structured.AllocatedState, error) {
	state := NoAllocations()
	for _, c := range f.claims {
		if c.Status.Allocation != nil {
			AddAllocation(state, c.Status.Allocation)
		}
	}
	return state, nil
}

// SignalClaimPendingAllocation refuses.
func (fixedClaims) SignalClaimPendingAllocation(types.UID, *resourceapi.ResourceClaim) error {
	return errFixed
}

// GetPendingAllocation has none.
func (fixedClaims) GetPendingAllocation(types.UID) *resourceapi.AllocationResult { return nil }

// MaybeRemoveClaimPendingAllocation has none.
func (fixedClaims) MaybeRemoveClaimPendingAllocation(types.UID, bool) bool { return false }

// AssumeClaimAfterAPICall refuses.
func (fixedClaims) AssumeClaimAfterAPICall(*resourceapi.ResourceClaim) error { return errFixed }

// AssumedClaimRestore has nothing to do.
func (fixedClaims) AssumedClaimRestore(string, string) {}
