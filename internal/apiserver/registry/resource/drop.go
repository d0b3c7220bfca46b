package resource

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// dropFromClaim removes DerivedAttributes (gate DRADerivedAttributes, alpha), unless the stored
// claim has them already.
func dropFromClaim(s, previous *resourcev1.ResourceClaimSpec) {
	if previous != nil && isDerived(previous) {
		return
	}
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if r.Exactly != nil {
			r.Exactly.DerivedAttributes = nil
		}
		for k := range r.FirstAvailable {
			r.FirstAvailable[k].DerivedAttributes = nil
		}
	}
}

func isDerived(s *resourcev1.ResourceClaimSpec) bool {
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if r.Exactly != nil && len(r.Exactly.DerivedAttributes) > 0 {
			return true
		}
		for k := range r.FirstAvailable {
			if len(r.FirstAvailable[k].DerivedAttributes) > 0 {
				return true
			}
		}
	}
	return false
}

// dropFromStatus removes SkipNodeOperations (gate DRAOptionalNodeOperations, alpha), unless the
// stored allocation has them already.
func dropFromStatus(s, previous *resourcev1.ResourceClaimStatus) {
	if s.Allocation == nil || skipsAllocation(previous) {
		return
	}
	for i := range s.Allocation.Devices.Results {
		s.Allocation.Devices.Results[i].SkipNodeOperations = nil
	}
}

// dropDeallocated removes the statuses of devices that a claim had and has no more.
func dropDeallocated(s, previous *resourcev1.ResourceClaimStatus) {
	given := allocatedDevices(s)
	gone := allocatedDevices(previous).Difference(given)
	s.Devices = slices.DeleteFunc(s.Devices,
		func(d resourcev1.AllocatedDeviceStatus) bool { return gone.Has(deviceShareOf(&d)) })
	if len(s.Devices) == 0 {
		s.Devices = nil
	}
}

// allocatedDevices returns the devices that a claim was given.
func allocatedDevices(s *resourcev1.ResourceClaimStatus) sets.Set[deviceShare] {
	out := sets.New[deviceShare]()
	if s.Allocation != nil {
		for _, r := range s.Allocation.Devices.Results {
			out.Insert(deviceShare{r.Driver, r.Pool, r.Device, string(typed.Deref(r.ShareID))})
		}
	}
	return out
}

func skipsAllocation(s *resourcev1.ResourceClaimStatus) bool {
	if s.Allocation == nil {
		return false
	}
	for i := range s.Allocation.Devices.Results {
		if len(s.Allocation.Devices.Results[i].SkipNodeOperations) > 0 {
			return true
		}
	}
	return false
}

// disabledField is one alpha field of a slice: whether it is used, and its removal.
type disabledField struct {
	isUsed func(*resourcev1.ResourceSliceSpec) bool
	drop   func(*resourcev1.ResourceSliceSpec)
}

// disabledFields are the fields that v1.37 drops: DRAPartitionableDevicesType,
// DRAOptionalNodeOperations, DRANodeAllocatableResources, DRADeviceCompatibilityGroups,
// DRAListTypeAttributes.
func disabledFields() []disabledField {
	return []disabledField{
		{
			func(s *resourcev1.ResourceSliceSpec) bool { return s.PartitionTypeAttribute != nil },
			func(s *resourcev1.ResourceSliceSpec) { s.PartitionTypeAttribute = nil },
		},
		{
			func(s *resourcev1.ResourceSliceSpec) bool { return len(s.SkipNodeOperations) > 0 },
			func(s *resourcev1.ResourceSliceSpec) { s.SkipNodeOperations = nil },
		},
		ofDevice(
			func(d *resourcev1.Device) bool { return len(d.NodeAllocatableResources) > 0 },
			func(d *resourcev1.Device) { d.NodeAllocatableResources = nil },
		),
		ofDevice(
			func(d *resourcev1.Device) bool {
				for i := range d.ConsumesCounters {
					if len(d.ConsumesCounters[i].CompatibilityGroups) > 0 {
						return true
					}
				}
				return false
			},
			func(d *resourcev1.Device) {
				for i := range d.ConsumesCounters {
					d.ConsumesCounters[i].CompatibilityGroups = nil
				}
			},
		),
		ofDevice(listAttributes, dropListAttributes),
	}
}

func ofDevice(used func(*resourcev1.Device) bool, drop func(*resourcev1.Device)) disabledField {
	return disabledField{
		func(s *resourcev1.ResourceSliceSpec) bool {
			for i := range s.Devices {
				if used(&s.Devices[i]) {
					return true
				}
			}
			return false
		},
		func(s *resourcev1.ResourceSliceSpec) {
			for i := range s.Devices {
				drop(&s.Devices[i])
			}
		},
	}
}

func isList(a resourcev1.DeviceAttribute) bool {
	return a.IntValues != nil || a.BoolValues != nil || a.StringValues != nil || a.VersionValues != nil
}

func listAttributes(d *resourcev1.Device) bool {
	for _, a := range d.Attributes {
		if isList(a) {
			return true
		}
	}
	return false
}

func dropListAttributes(d *resourcev1.Device) {
	for name, a := range d.Attributes {
		if isList(a) {
			a.IntValues, a.BoolValues, a.StringValues, a.VersionValues = nil, nil, nil, nil
			d.Attributes[name] = a
		}
	}
}

func dropFromSlice(s, previous *resourcev1.ResourceSliceSpec) {
	for _, g := range disabledFields() {
		if previous == nil || !g.isUsed(previous) {
			g.drop(s)
		}
	}
}
