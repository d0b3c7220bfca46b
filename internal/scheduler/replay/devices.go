package replay

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
)

// Devices are the objects around the devices that a Pod asks for: nothing when it asks for none.
type Devices struct {
	Claims  []*resourceapi.ResourceClaim `json:"claims,omitempty"`
	Slices  []*resourceapi.ResourceSlice `json:"slices,omitempty"` // with taint rules applied
	Classes []*resourceapi.DeviceClass   `json:"classes,omitempty"`
	// for claims in which it is not written yet
	Decided map[types.UID]resourceapi.AllocationResult `json:"decided,omitempty"`
}

// DRAManager is where they are taken from: the scheduler's view, which knows more than the
// framework asks for.
type DRAManager interface {
	framework.SharedDRAManager
	// PendingAllocations are allocations that are decided and not written yet, by claim.
	PendingAllocations() map[types.UID]resourceapi.AllocationResult
}

// DevicesFor gathers what a result for the Pod may read; nil when it asks for no devices or there
// is no store.
func DevicesFor(p *v1.Pod, from DRAManager) (*Devices, error) {
	if from == nil || len(p.Spec.ResourceClaims) == 0 && !usesClassResource(p, from) {
		return nil, nil
	}
	d := &Devices{Decided: from.PendingAllocations()}
	var err error
	if d.Claims, err = from.ResourceClaims().List(); err != nil {
		return nil, err
	}
	if d.Slices, err = from.ResourceSlices().ListWithDeviceTaintRules(); err != nil {
		return nil, err
	}
	d.Classes, err = from.DeviceClasses().List()
	return d, err
}

// usesClassResource tells whether the Pod asks for an extended resource that a device class serves.
func usesClassResource(p *v1.Pod, from DRAManager) bool {
	return slices.ContainsFunc(slices.Concat(p.Spec.InitContainers, p.Spec.Containers), func(c v1.Container) bool {
		for name, q := range c.Resources.Requests {
			if !q.IsZero() && dynamicresources.DeviceClassFor(from, name) != nil {
				return true
			}
		}
		return false
	})
}

// trimmed drops what no plugin reads.
func (d *Devices) trimmed() *Devices {
	if d == nil {
		return nil
	}
	out := *d
	out.Claims = trim(d.Claims, func(c *resourceapi.ResourceClaim) { c.ManagedFields = nil })
	out.Slices = trim(d.Slices, func(s *resourceapi.ResourceSlice) { s.ManagedFields = nil })
	out.Classes = trim(d.Classes, func(c *resourceapi.DeviceClass) { c.ManagedFields = nil })
	return &out
}

func trim[T any](list []*T, drop func(*T)) []*T {
	out := make([]*T, len(list))
	for i, o := range list {
		c := *o
		drop(&c)
		out[i] = &c
	}
	return out
}

// recordedManager is the store that was written down.
type recordedManager struct {
	*dynamicresources.FixedManager
	decided map[types.UID]resourceapi.AllocationResult
}

func (d *Devices) manager() recordedManager {
	all := slices.Concat(objects(d.Claims), objects(d.Slices), objects(d.Classes))
	return recordedManager{dynamicresources.NewFixedManager(all...), maps.Clone(d.Decided)}
}

// ResourceClaims are the recorded ones, with what was decided for them.
func (r recordedManager) ResourceClaims() framework.ResourceClaimTracker {
	return recordedClaims{r.FixedManager.ResourceClaims(), r.decided}
}

type recordedClaims struct {
	framework.ResourceClaimTracker
	decided map[types.UID]resourceapi.AllocationResult
}

// GetPendingAllocation gives what was decided and not written; nil for nothing.
func (r recordedClaims) GetPendingAllocation(uid types.UID) *resourceapi.AllocationResult {
	if a, ok := r.decided[uid]; ok {
		return &a
	}
	return nil
}

// GatherAllocatedState sums up what claims have, and what was decided for those that have nothing.
func (r recordedClaims) GatherAllocatedState() (*structured.AllocatedState, error) {
	state, err := r.ResourceClaimTracker.GatherAllocatedState()
	if err != nil {
		return nil, err
	}
	all, err := r.List()
	has := map[types.UID]bool{}
	for _, c := range all {
		has[c.UID] = c.Status.Allocation != nil
	}
	for uid, a := range r.decided {
		if !has[uid] {
			dynamicresources.AddAllocation(state, &a)
		}
	}
	return state, err
}
