package devicemanager

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// StopGracePeriod is how long a resource whose last plugin is gone stays in the node's capacity.
const StopGracePeriod = 5 * time.Minute

// Device is one device as its plugin reports it.
type Device struct {
	Health string  // pluginapi.Healthy, or anything else for a device that must not be given away
	Nodes  []int64 // NUMA nodes that it is close to; none: it does not matter, or the plugin does not say
}

// Resource is an extended resource and its devices.
type Resource struct {
	Devices map[string]Device // by id
	// when its last plugin went away; zero while there is one. A resource that only the checkpoint
	// knows is stopped since the kubelet's start.
	Stopped time.Time
	// a plugin has come and not reported yet: none of the devices is known to be healthy
	Awaiting bool
}

// Inventory is all that plugins report, by the resource's name.
type Inventory map[string]Resource

// Devices are those of a plugin's report, without entries that have no id. Of two entries with one
// id the last counts.
func Devices(list []*pluginapi.Device) map[string]Device {
	out := make(map[string]Device, len(list))
	for _, d := range list {
		if d.GetID() == "" {
			continue
		}
		device := Device{Health: d.GetHealth()}
		for _, n := range d.GetTopology().GetNodes() {
			device.Nodes = append(device.Nodes, n.GetID())
		}
		out[d.GetID()] = device
	}
	return out
}

// EqualDevices tells whether two reports say the same.
func EqualDevices(a, b map[string]Device) bool {
	return maps.EqualFunc(a, b,
		func(x, y Device) bool { return x.Health == y.Health && slices.Equal(x.Nodes, y.Nodes) })
}

// HealthChanges are the ids of devices whose health differs between two reports, or that came; a
// container that has one of them shows it.
func HealthChanges(old, now map[string]Device) []string {
	var out []string
	for id, d := range now {
		if was, known := old[id]; !known || was.Health != d.Health {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// Healthy are the ids of devices that may be given away: none while no plugin tells of them.
func (r Resource) Healthy() Set {
	out := Set{}
	if !r.Stopped.IsZero() || r.Awaiting {
		return out
	}
	for id, d := range r.Devices {
		if d.Health == pluginapi.Healthy {
			out[id] = true
		}
	}
	return out
}

// HealthyIDs are the ids of healthy devices in order, for the checkpoint.
func (r Resource) HealthyIDs() []string { return r.Healthy().sorted() }

// Capacity is what the node has of device plugins' resources: all devices as capacity, healthy ones
// as allocatable. removed are those whose last plugin has been away for longer than
// StopGracePeriod: they are in neither, and the caller forgets them; the node's status names them
// with 0.
func (i Inventory) Capacity(now time.Time) (capacity, allocatable v1.ResourceList, removed []string) {
	capacity, allocatable = v1.ResourceList{}, v1.ResourceList{}
	for name, r := range i {
		if !r.Stopped.IsZero() && now.Sub(r.Stopped) > StopGracePeriod {
			removed = append(removed, name)
			continue
		}
		capacity[v1.ResourceName(name)] = *resource.NewQuantity(int64(len(r.Devices)), resource.DecimalSI)
		allocatable[v1.ResourceName(name)] = *resource.NewQuantity(int64(len(r.Healthy())), resource.DecimalSI)
	}
	slices.Sort(removed)
	return capacity, allocatable, removed
}

// Aligned tells whether a resource's devices care about NUMA nodes.
func (r Resource) Aligned() bool {
	for _, d := range r.Devices {
		if len(d.Nodes) > 0 {
			return true
		}
	}
	return false
}
