package devices

import (
	"maps"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
)

// taken counts what claims have, claim by claim as they change, so that a cycle need not sum all of them up. A device may be in several claims for a moment (one is
// freed as the next gets it), hence the counts.
type taken struct {
	of       map[types.UID]*resourceapi.AllocationResult
	devices  map[structured.DeviceID]int
	shares   map[structured.SharedDeviceID]int
	consumed structured.ConsumedCapacityCollection
	given    *structured.AllocatedState // handed out and still true; never changed afterwards
}

func newTaken() taken {
	return taken{
		of: map[types.UID]*resourceapi.AllocationResult{}, devices: map[structured.DeviceID]int{}, shares: map[structured.SharedDeviceID]int{},
		consumed: structured.NewConsumedCapacityCollection(),
	}
}

// set says what a claim has now; nil for nothing.
func (t *taken) set(claim types.UID, a *resourceapi.AllocationResult) {
	was := t.of[claim]
	if was == a {
		return
	}
	t.given = nil
	t.count(was, -1)
	t.count(a, 1)
	if a == nil {
		delete(t.of, claim)
	} else {
		t.of[claim] = a
	}
}

func (t *taken) count(a *resourceapi.AllocationResult, by int) {
	if a == nil {
		return
	}
	one := dynamicresources.NothingTaken()
	dynamicresources.Take(one, a)
	for id := range one.AllocatedDevices {
		add(t.devices, id, by)
	}
	for id := range one.AllocatedSharedDeviceIDs {
		add(t.shares, id, by)
	}
	for id, c := range one.AggregatedCapacity {
		if part := (structured.DeviceConsumedCapacity{DeviceID: id, ConsumedCapacity: c}); by > 0 {
			t.consumed.Insert(part)
		} else {
			t.consumed.Remove(part)
		}
	}
}

func add[K comparable](m map[K]int, k K, by int) {
	if m[k] += by; m[k] == 0 {
		delete(m, k)
	}
}

// state is all of it, for reading only.
func (t *taken) state() *structured.AllocatedState {
	if t.given == nil {
		s := dynamicresources.NothingTaken()
		s.AllocatedDevices.Insert(keys(t.devices)...)
		s.AllocatedSharedDeviceIDs.Insert(keys(t.shares)...)
		s.AggregatedCapacity = t.consumed.Clone()
		t.given = s
	}
	c := *t.given
	return &c
}

func keys[K comparable](m map[K]int) []K {
	out := make([]K, 0, len(m))
	for k := range maps.Keys(m) {
		out = append(out, k)
	}
	return out
}
