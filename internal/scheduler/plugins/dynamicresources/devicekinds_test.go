package dynamicresources_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// watching asks for admin access to one device.
func watching(r resourceapi.DeviceRequest) resourceapi.DeviceRequest {
	r.Exactly.AdminAccess = new(true)
	return r
}

func tolerating(r resourceapi.DeviceRequest) resourceapi.DeviceRequest {
	r.Exactly.Tolerations = []resourceapi.DeviceToleration{
		{Key: "broken", Operator: resourceapi.DeviceTolerationOpExists}}
	return r
}

// partitioned is a GPU of n1 that can be used whole or by halves: two slices of one pool, the
// counters in one and the devices in the other.
func partitioned() []runtime.Object {
	pool := resourceapi.ResourcePool{Name: "n1", Generation: 1, ResourceSliceCount: 2}
	counters := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "counters"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: new("n1"), Pool: pool,
			SharedCounters: []resourceapi.CounterSet{
				{Name: "card", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("8Gi")}}}},
		}}
	devices := slice("n1", "whole-0", "half-0", "half-1")
	devices.Spec.Pool = pool
	for i, uses := range []string{"8Gi", "4Gi", "4Gi"} {
		devices.Spec.Devices[i].ConsumesCounters = []resourceapi.DeviceCounterConsumption{
			{CounterSet: "card", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(uses)}}}}
	}
	return []runtime.Object{class("whole"), class("half"), counters, devices}
}

// shared is a device of n1 whose 8Gi of memory several claims may share.
func shared() []runtime.Object {
	s := slice("n1", "card-0")
	s.Spec.Devices[0].AllowMultipleAllocations = new(true)
	s.Spec.Devices[0].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
		"memory": {Value: resource.MustParse("8Gi")}}
	return []runtime.Object{class("card"), s}
}

func share(memory string) resourceapi.DeviceRequest {
	r := exactly("card", 1)
	r.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{
		"memory": resource.MustParse(memory)}}
	return r
}

// sharing is a claim that has a share of the device.
func sharing(name, memory string) *resourceapi.ResourceClaim {
	c := allocatedTo(claim(name, share(memory)), "n1", "card-0")
	r := &c.Status.Allocation.Devices.Results[0]
	r.ShareID, r.ConsumedCapacity = new(types.UID("5e1ca7f8-27e2-4c13-8f8e-1f5b3d2b7a10")),
		map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory)}
	return c
}

func TestKindsOfDevices(t *testing.T) {
	gpu := []runtime.Object{class("gpu"), slice("n1", "gpu-0")}
	broken := []runtime.Object{class("gpu"), tainted(slice("n1", "gpu-0"))}
	for name, c := range map[string]struct {
		snapshot []runtime.Object
		claims   []*resourceapi.ResourceClaim // a is the Pod's
		fits     bool
	}{
		"admin access to a taken device": {gpu,
			[]*resourceapi.ResourceClaim{claim("a", watching(exactly("gpu", 1))),
				allocatedTo(claim("b", exactly("gpu", 1)), "n1", "gpu-0")}, true},
		"the same without admin access": {gpu,
			[]*resourceapi.ResourceClaim{claim("a", exactly("gpu", 1)), allocatedTo(claim("b", exactly("gpu", 1)), "n1",
				"gpu-0")}, false},
		"a tainted device that is tolerated": {broken,
			[]*resourceapi.ResourceClaim{claim("a", tolerating(exactly("gpu", 1)))}, true},
		"a tainted device": {broken,
			[]*resourceapi.ResourceClaim{claim("a", exactly("gpu", 1))}, false},
		"a whole card": {partitioned(),
			[]*resourceapi.ResourceClaim{claim("a", exactly("whole", 1))}, true},
		"a whole card of which a half is taken": {partitioned(),
			[]*resourceapi.ResourceClaim{claim("a", exactly("whole", 1)),
				allocatedTo(claim("b", exactly("half", 1)), "n1", "half-0")}, false},
		"the other half": {partitioned(),
			[]*resourceapi.ResourceClaim{claim("a", exactly("half", 1)),
				allocatedTo(claim("b", exactly("half", 1)), "n1", "half-0")}, true},
		"a half of a card that is taken whole": {partitioned(),
			[]*resourceapi.ResourceClaim{claim("a", exactly("half", 1)), allocatedTo(claim("b", exactly("whole", 1)),
				"n1", "whole-0")}, false},
		"a share of a device": {shared(),
			[]*resourceapi.ResourceClaim{claim("a", share("5Gi"))}, true},
		"a share beside another for which there is room": {shared(),
			[]*resourceapi.ResourceClaim{claim("a", share("5Gi")), sharing("b", "3Gi")}, true},
		"a share beside another for which there is no room": {shared(),
			[]*resourceapi.ResourceClaim{claim("a", share("5Gi")), sharing("b", "4Gi")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			objects := c.snapshot
			for _, claim := range c.claims {
				objects = append(objects, claim)
			}
			pl := dynamicresources.New(nil, dynamicresources.NewFixedManager(objects...), nil)
			nodes := []*v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
				{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}}
			r := schedule.SchedulePod(t.Context(), schedule.Input{Pod: podUsing("a"), Snapshot: snapshot.Of(nodes, nil),
				Plugins: schedule.NewPluginSet("test", schedule.WeightedPlugin{Plugin: pl})})
			if r.Scheduled() != c.fits || c.fits && r.SuggestedHost != "n1" {
				t.Errorf("winner %q, message %q", r.SuggestedHost, r.Message())
			}
		})
	}
}
