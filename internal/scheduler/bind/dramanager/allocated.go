package dramanager

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
)

// allocatedDevices counts the devices of claims, claim by claim as they change, so that no cycle
// sums them up.
type allocatedDevices struct {
	byClaim map[types.UID]*resourceapi.AllocationResult
	pools   *dynamicresources.Pools
}

func newAllocatedDevices() allocatedDevices {
	return allocatedDevices{map[types.UID]*resourceapi.AllocationResult{}, dynamicresources.NewPools()}
}

// set sets the allocation of a claim; nil: none. The same devices, first decided, then written,
// then seen from the API server, are no change.
func (t *allocatedDevices) set(claim types.UID, a *resourceapi.AllocationResult) {
	was := t.byClaim[claim]
	if was == a {
		return
	}
	if a == nil {
		delete(t.byClaim, claim)
	} else {
		t.byClaim[claim] = a
	}
	if was == nil || a == nil || !equality.Semantic.DeepEqual(was.Devices.Results, a.Devices.Results) {
		t.pools.SetAllocation(was, a)
	}
}
