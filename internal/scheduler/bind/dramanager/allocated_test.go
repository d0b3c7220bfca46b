package dramanager

import (
	"fmt"
	"maps"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
)

func someAllocation(t *rapid.T) *resourceapi.AllocationResult {
	a := &resourceapi.AllocationResult{}
	for range rapid.IntRange(0, 3).Draw(t, "results") {
		r := resourceapi.DeviceRequestAllocationResult{Driver: "d", Pool: "p",
			Device: fmt.Sprintf("gpu-%d", rapid.IntRange(0, 4).Draw(t, "device"))}
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			r.AdminAccess = new(true)
		case 1:
			r.ShareID = new(types.UID(fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "share"))))
			r.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{
				"memory": *resource.NewQuantity(rapid.Int64Range(1, 9).Draw(t, "memory"), resource.DecimalSI)}
		}
		a.Devices.Results = append(a.Devices.Results, r)
	}
	return a
}

// What is kept claim by claim is what summing all claims up gives, and what was handed out before
// stays as it was.
func TestTakenDevicesAreWhatTheClaimsHave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cached, all := newAllocatedDevices(), map[types.UID]*resourceapi.AllocationResult{}
		var before *structured.AllocatedState
		devices := 0
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			claim := types.UID(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "claim")))
			var a *resourceapi.AllocationResult
			if rapid.Bool().Draw(t, "allocated") {
				a = someAllocation(t)
			}
			all[claim] = a
			cached.set(claim, a)
			want := dynamicresources.NoAllocations()
			for _, a := range all {
				if a != nil {
					dynamicresources.AddAllocation(want, a)
				}
			}
			got := cached.pools.Allocated()
			if !got.AllocatedDevices.Equal(want.AllocatedDevices) || !got.AllocatedSharedDeviceIDs.Equal(
				want.AllocatedSharedDeviceIDs) {
				t.Fatalf("devices %v %v, want %v %v", got.AllocatedDevices, got.AllocatedSharedDeviceIDs,
					want.AllocatedDevices, want.AllocatedSharedDeviceIDs)
			}
			same := func(a, b structured.ConsumedCapacity) bool {
				return maps.EqualFunc(a, b, func(x, y *resource.Quantity) bool { return x.Cmp(*y) == 0 })
			}
			if !maps.EqualFunc(got.AggregatedCapacity, want.AggregatedCapacity, same) {
				t.Fatalf("consumed %v, want %v", got.AggregatedCapacity, want.AggregatedCapacity)
			}
			if before != nil && before.AllocatedDevices.Len() != devices {
				t.Fatalf("a state that was handed out changed: got %d devices, want %d",
					before.AllocatedDevices.Len(), devices)
			}
			before, devices = got, got.AllocatedDevices.Len()
		}
	})
}
