package manager

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/devicemanager"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/checkpoint"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/plugin"
)

// Deps is what a Manager works with. Functions are called from any goroutine, without a lock.
type Deps struct {
	Dir     string // of the sockets and the checkpoint: device-plugins in the kubelet's directory
	Sockets plugin.Sockets
	// Active tells whether a Pod may still use its devices: it has not ended, or it is not known
	// yet who it is.
	Active func(uid types.UID) bool
	// Affinity is the NUMA nodes that the topology manager chose for a container; nil: it does not
	// mind. Nil as a whole: there is no topology manager.
	Affinity  func(uid types.UID, container string) map[int64]bool
	NUMANodes []int // of the machine
	// CapacityChanged tells that the node's resources may be others than before.
	CapacityChanged func()
	// HealthChanged tells that a device of the Pod changed its health.
	HealthChanged func(uid types.UID)
	Metrics       Metrics
}

// Metrics counts; a nil function counts nothing.
type Metrics struct {
	Registered func(resource string)
	Allocated  func(resource string, took time.Duration)
}

// Manager holds devices. Make one with New.
type Manager struct {
	d      Deps
	server *plugin.Server

	mu        sync.Mutex
	inventory devicemanager.Inventory
	plugins   map[string][]*plugin.Client // by resource, the newest last
	removed   map[string]bool             // resources that had plugins once: the node's status has 0 of them
	pods      devicemanager.PodDevices

	writing sync.Mutex // the checkpoint, by one at a time; taken before mu
	written string
}

// New returns a Manager that knows what the checkpoint has; Start makes plugins come.
func New(d Deps) *Manager {
	m := &Manager{d: d, inventory: devicemanager.Inventory{}, plugins: map[string][]*plugin.Client{},
		removed: map[string]bool{}, pods: devicemanager.PodDevices{}}
	m.server = plugin.New(plugin.Deps{Dir: d.Dir, Sockets: d.Sockets, Handler: m, Registered: d.Metrics.Registered})
	if err := m.readCheckpoint(time.Now()); err != nil {
		klog.ErrorS(err, "Continue after failing to read checkpoint file. Device allocation info may NOT be "+
			"up-to-date", "checkpoint", m.checkpointPath())
	}
	return m
}

// Start serves registrations until ctx ends; the function returned waits for the end.
func (m *Manager) Start(ctx context.Context) (wait func(), err error) { return m.server.Start(ctx) }

// PluginHandler takes in device plugins that register below plugins_registry.
func (m *Manager) PluginHandler() *plugin.Server { return m.server }

func (m *Manager) checkpointPath() string { return filepath.Join(m.d.Dir, checkpoint.File) }

// PluginConnected notes a plugin of a resource: it is asked from now on.
func (m *Manager) PluginConnected(resource string, c *plugin.Client) {
	m.mu.Lock()
	r := m.inventory[resource]
	r.Stopped = time.Time{}
	r.Awaiting = r.Awaiting || len(m.plugins[resource]) == 0
	m.inventory[resource] = r
	m.plugins[resource] = append(m.plugins[resource], c)
	m.mu.Unlock()
	klog.V(2).InfoS("Device plugin connected", "resourceName", resource, "endpoint", c.Path)
}

// PluginDisconnected notes that a plugin is gone. With the last one of a resource no device of it
// is healthy any more.
func (m *Manager) PluginDisconnected(resource string, c *plugin.Client) {
	m.mu.Lock()
	list := m.plugins[resource]
	for i := range list {
		if list[i] == c {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if m.plugins[resource] = list; len(list) == 0 {
		delete(m.plugins, resource)
		r := m.inventory[resource]
		r.Stopped = time.Now()
		m.inventory[resource] = r
	}
	m.mu.Unlock()
	klog.V(2).InfoS("Device plugin disconnected", "resourceName", resource, "endpoint", c.Path)
	m.d.CapacityChanged()
}

// DevicesReported takes a plugin's report as what its resource has.
func (m *Manager) DevicesReported(c *plugin.Client, list []*pluginapi.Device) {
	devices := devicemanager.Devices(list)
	m.mu.Lock()
	r := m.inventory[c.Resource]
	if !r.Awaiting && devicemanager.EqualDevices(r.Devices, devices) {
		m.mu.Unlock()
		return
	}
	users := m.pods.Users(c.Resource, devicemanager.HealthChanges(r.Devices, devices))
	r.Devices, r.Awaiting = devices, false
	m.inventory[c.Resource] = r
	m.mu.Unlock()
	klog.V(2).InfoS("Processed device updates for resource", "resourceName", c.Resource, "totalCount", len(devices),
		"healthyCount", len(r.HealthyIDs()))
	if err := m.writeCheckpoint(); err != nil {
		klog.ErrorS(err, "Writing checkpoint encountered")
	}
	for _, uid := range users {
		m.d.HealthChanged(uid)
	}
	m.d.CapacityChanged()
}

// Capacity is what the node has of device plugins' resources, now. One whose last plugin has been
// away for too long is 0 and forgotten.
func (m *Manager) Capacity() (capacity, allocatable v1.ResourceList) {
	m.mu.Lock()
	capacity, allocatable, removed := m.inventory.Capacity(time.Now())
	for _, name := range removed {
		delete(m.inventory, name)
		m.removed[name] = true
	}
	for name := range m.removed {
		if _, back := m.inventory[name]; !back {
			capacity[v1.ResourceName(name)] = *resource.NewQuantity(0, resource.DecimalSI)
			allocatable[v1.ResourceName(name)] = *resource.NewQuantity(0, resource.DecimalSI)
		}
	}
	m.mu.Unlock()
	if len(removed) > 0 {
		if err := m.writeCheckpoint(); err != nil {
			klog.ErrorS(err, "Failed to write checkpoint file")
		}
	}
	return capacity, allocatable
}

// Devices are what a container has, by resource.
func (m *Manager) Devices(uid types.UID, container string) map[string]devicemanager.Allocation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return settled(m.pods[uid][container])
}

// settled are the allocations that plugins have answered.
func settled(all map[string]devicemanager.Allocation) map[string]devicemanager.Allocation {
	out := make(map[string]devicemanager.Allocation, len(all))
	for name, a := range all {
		if a.Response != nil {
			out[name] = a
		}
	}
	return out
}

// Allocatable are the healthy devices of each resource, by id.
func (m *Manager) Allocatable() map[string]map[string]devicemanager.Device {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]map[string]devicemanager.Device{}
	for name, r := range m.inventory {
		if len(r.Devices) == 0 {
			continue
		}
		out[name] = map[string]devicemanager.Device{}
		for _, id := range r.HealthyIDs() {
			out[name][id] = r.Devices[id]
		}
	}
	return out
}

// Allocated is how many devices of each resource Pods have, if this Pod has any: as much of them
// the node has for sure, whatever its status says. Nil: the Pod has none.
func (m *Manager) Allocated(uid types.UID) v1.ResourceList {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.pods[uid]) == 0 {
		return nil
	}
	return m.pods.Totals()
}

// ResourcesStatus is allocatedResourcesStatus of a container; nil when it has no devices.
func (m *Manager) ResourcesStatus(uid types.UID, container string) []v1.ResourceStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	return devicemanager.ResourcesStatus(settled(m.pods[uid][container]), m.inventory)
}
