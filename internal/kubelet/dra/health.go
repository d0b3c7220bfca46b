package dra

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/gantry-project/gantry/internal/kubelet/dra/state"
)

// DefaultHealthTimeout is how long a driver's word about a device holds unless it says otherwise.
const DefaultHealthTimeout = 30 * time.Second

// DeviceID is a device of a driver.
type DeviceID struct{ Driver, Pool, Device string }

// DeviceHealth is a driver's last word about a device.
type DeviceHealth struct {
	Status  v1.ResourceHealthStatus
	Message string
	At      time.Time
	Timeout time.Duration // how long it holds; 0 or less: DefaultHealthTimeout
}

// Health is what drivers say of devices.
type Health map[DeviceID]DeviceHealth

// of is the health of a device at a time: unknown when its driver has not spoken lately.
func (h Health) of(id DeviceID, now time.Time) DeviceHealth {
	d, known := h[id]
	if !known || now.Sub(d.At) > d.holds() {
		return DeviceHealth{Status: v1.ResourceHealthStatusUnknown}
	}
	return d
}

func (d DeviceHealth) holds() time.Duration {
	if d.Timeout > 0 {
		return d.Timeout
	}
	return DefaultHealthTimeout
}

// MaxDevicesPerDriver is how many devices' health is kept: more are nonsense.
const MaxDevicesPerDriver = 16384

// Update takes a driver's report of at most MaxDevicesPerDriver devices; changed are the devices of
// which it says something new. A device that it leaves out keeps its word until that holds no
// longer.
func (h Health) Update(driver string, report map[DeviceID]DeviceHealth, now time.Time) (changed []DeviceID) {
	for id, d := range report {
		if was := h.of(id, now); was.Status != d.Status || was.Message != d.Message {
			changed = append(changed, id)
		}
		h[id] = d
	}
	kept := len(report)
	for id, d := range h {
		if _, reported := report[id]; id.Driver != driver || reported {
			continue
		}
		if kept == MaxDevicesPerDriver || now.Sub(d.At) > d.holds() {
			delete(h, id)
			changed = append(changed, id)
			continue
		}
		kept++
	}
	return changed
}

// ResourcesStatus is allocatedResourcesStatus for what a container uses of a claim.
func ResourcesStatus(r Requests, c *Claim, h Health, now time.Time) []v1.ResourceStatus {
	var out []v1.ResourceStatus
	for i, as := range r.As {
		s := v1.ResourceStatus{Name: v1.ResourceName(as)}
		seen := map[v1.ResourceID]bool{}
		for _, driver := range slices.Sorted(maps.Keys(c.DriverState)) {
			for _, d := range c.DriverState[driver].Devices {
				if r.Names[i] != "" && len(d.RequestNames) > 0 &&
					!slices.Contains(d.RequestNames, resourceclaim.BaseRequestRef(r.Names[i])) {
					continue
				}
				e := resourceHealth(driver, d, h.of(DeviceID{driver, d.PoolName, d.DeviceName}, now))
				if !seen[e.ResourceID] {
					seen[e.ResourceID] = true
					s.Resources = append(s.Resources, e)
				}
			}
		}
		if len(s.Resources) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// resourceHealth names a device by its first CDI device, else by driver, pool and device.
func resourceHealth(driver string, d state.Device, h DeviceHealth) v1.ResourceHealth {
	out := v1.ResourceHealth{ResourceID: v1.ResourceID(driver + "/" + d.PoolName + "/" + d.DeviceName),
		Health: h.Status}
	if len(d.CDIDeviceIDs) > 0 {
		out.ResourceID = v1.ResourceID(d.CDIDeviceIDs[0])
	}
	if h.Message != "" {
		out.Message = &h.Message
	}
	return out
}
