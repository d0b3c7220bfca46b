package manager

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/devicemanager"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/plugin"
)

// Reserve notes which devices a container gets, resource by resource in the order of their names,
// so that no other container is given them. What it has already stays. Its errors are upstream's;
// what was reserved before one is free again when the Pod has ended.
func (m *Manager) Reserve(ctx context.Context, pod *v1.Pod, c *v1.Container) error {
	for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
		if backedByClaim(pod, c.Name, name) || !m.serves(string(name)) {
			continue
		}
		quantity := c.Resources.Limits[name]
		w := request{pod: pod, container: c, resource: string(name), required: int(quantity.Value())}
		if m.keeps(w) {
			continue
		}
		if err := m.reserve(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// keeps tells whether a container has its devices from before the kubelet's start: its Pod was let
// in then, or their plugin has not come back yet.
func (m *Manager) keeps(w request) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.inventory[w.resource]
	has := m.pods.Container(w.pod.UID, w.container.Name, w.resource)
	return w.required > 0 && len(has) == w.required &&
		(w.pod.Status.StartTime != nil || r.Awaiting || !r.Stopped.IsZero())
}

// Allocate has plugins prepare what is reserved for the Pod's containers, and keeps it in the
// checkpoint. It waits for no other Pod's plugins. Errors are as those of Reserve.
func (m *Manager) Allocate(ctx context.Context, uid types.UID) error {
	changed := false
	for {
		container, resource, ids := m.nextReserved(uid)
		if container == "" {
			break
		}
		if err := m.allocate(ctx, share{uid, container, resource}, ids); err != nil {
			return err
		}
		changed = true
	}
	if !changed {
		return nil
	}
	return m.writeCheckpoint()
}

// nextReserved is a reservation of the Pod that no plugin has answered; no container: there is
// none.
func (m *Manager) nextReserved(uid types.UID) (container, resource string, ids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, container := range slices.Sorted(maps.Keys(m.pods[uid])) {
		for _, resource := range slices.Sorted(maps.Keys(m.pods[uid][container])) {
			if a := m.pods[uid][container][resource]; a.Response == nil {
				return container, resource, a.DeviceIDs.Devices()
			}
		}
	}
	return "", "", nil
}

// backedByClaim tells whether the scheduler allocated a container's extended resource by a claim:
// the claim's driver gives its devices.
func backedByClaim(pod *v1.Pod, container string, resource v1.ResourceName) bool {
	s := pod.Status.ExtendedResourceClaimStatus
	return s != nil && slices.ContainsFunc(s.RequestMappings, func(r v1.ContainerExtendedResourceRequest) bool {
		return r.ContainerName == container && r.ResourceName == string(resource)
	})
}

// serves tells whether a resource is of a device plugin, of now or before.
func (m *Manager) serves(resource string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.inventory[resource]
	return known || m.pods.Resources()[resource]
}

// request is a container's request for devices of one resource.
type request struct {
	pod       *v1.Pod
	container *v1.Container
	resource  string
	required  int
}

// allocationRequest is all that the choice depends on. m.mu is held.
func (m *Manager) allocationRequest(w request, p *plugin.Client, preferred devicemanager.Set) devicemanager.Request {
	uid := w.pod.UID
	r := devicemanager.Request{Pod: uid, Container: w.container.Name, Resource: w.resource, Required: w.required,
		InUse: m.pods.InUse(w.resource), Has: m.pods.Container(uid, w.container.Name, w.resource),
		Reusable: m.pods.Reusable(w.pod, w.resource), Preferred: preferred}
	r.Devices, r.Known = m.inventory[w.resource]
	r.AsksPreferred = p != nil && p.Options.GetGetPreferredAllocationAvailable()
	if m.d.Affinity != nil {
		r.Affinity = m.d.Affinity(uid, w.container.Name)
	}
	return r
}

// reserve chooses devices and notes them. It asks the plugin for its preference without the lock,
// and chooses anew with the answer.
func (m *Manager) reserve(ctx context.Context, w request) error {
	var preferred devicemanager.Set
	for {
		m.freeEnded()
		m.mu.Lock()
		p := m.pluginOf(w.resource)
		choice, err := devicemanager.Choose(m.allocationRequest(w, p, preferred))
		if err == nil && choice.Ask == nil && len(choice.Devices) > 0 {
			m.pods.Insert(w.pod.UID, w.container.Name, w.resource, devicemanager.Allocation{
				DeviceIDs: m.inventory[w.resource].PerNUMA(choice.Devices)})
		}
		m.mu.Unlock()
		if err != nil || choice.Ask == nil {
			return err
		}
		if preferred, err = p.Prefer(ctx, choice.Ask); err != nil {
			return err
		}
	}
}

// pluginOf is who is asked for a resource; nil: nobody. m.mu is held.
func (m *Manager) pluginOf(resource string) *plugin.Client {
	if list := m.plugins[resource]; len(list) > 0 {
		return list[len(list)-1]
	}
	return nil
}

// share is what one container has of one resource.
type share struct {
	pod                 types.UID
	container, resource string
}

// allocate has a plugin prepare reserved devices; when it does not, they are free again.
func (m *Manager) allocate(ctx context.Context, s share, ids []string) (err error) {
	m.mu.Lock()
	p := m.pluginOf(s.resource)
	m.mu.Unlock()
	response, err := (*pluginapi.ContainerAllocateResponse)(nil), fmt.Errorf("unknown Device Plugin %s", s.resource)
	if p != nil {
		startedAt := time.Now()
		response, err = p.Allocate(ctx, ids)
		if m.d.Metrics.Allocated != nil {
			m.d.Metrics.Allocated(s.resource, time.Since(startedAt))
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.pods.Remove(s.pod, s.container, s.resource)
		return err
	}
	m.pods.Insert(s.pod, s.container, s.resource,
		devicemanager.Allocation{DeviceIDs: m.inventory[s.resource].PerNUMA(ids), Response: response})
	return nil
}

// freeEnded frees the devices of Pods that have ended.
func (m *Manager) freeEnded() {
	m.mu.Lock()
	uids := slices.Collect(maps.Keys(m.pods))
	m.mu.Unlock()
	for _, uid := range uids {
		if m.d.Active(uid) {
			continue
		}
		m.mu.Lock()
		delete(m.pods, uid)
		m.mu.Unlock()
	}
}

// RunOptions is what a container gets when it is made. Plugins that ask for it are told first
// (PreStartContainer). A container that has none of the devices it asks for is given some, if its
// Pod goes on: the checkpoint was lost.
func (m *Manager) RunOptions(ctx context.Context, pod *v1.Pod, c *v1.Container) (devicemanager.RunOptions, error) {
	lacks := false
	for name, quantity := range c.Resources.Limits {
		if backedByClaim(pod, c.Name, name) || !m.serves(string(name)) || quantity.IsZero() {
			continue
		}
		if err := m.preStart(ctx, request{pod: pod, container: c, resource: string(name)}); err != nil {
			return devicemanager.RunOptions{}, err
		}
		m.mu.Lock()
		_, has := m.pods[pod.UID][c.Name][string(name)]
		m.mu.Unlock()
		lacks = lacks || !has
	}
	if lacks && m.d.Active(pod.UID) {
		err := m.Reserve(ctx, pod, c)
		if err == nil {
			err = m.Allocate(ctx, pod.UID)
		}
		if err != nil {
			return devicemanager.RunOptions{}, err
		}
	}
	options, conflicts := devicemanager.RunOptionsOf(m.Devices(pod.UID, c.Name))
	for _, x := range conflicts {
		klog.FromContext(ctx).Error(nil, x.What+" has conflicting setting", "name", x.Name, "kept", x.Kept, "dropped",
			x.Dropped, "pod", klog.KObj(pod), "containerName", c.Name)
	}
	return options, nil
}

// preStart has the plugin of a resource do what must come right before the container starts.
func (m *Manager) preStart(ctx context.Context, w request) error {
	m.mu.Lock()
	p := m.pluginOf(w.resource)
	has := m.pods.Container(w.pod.UID, w.container.Name, w.resource)
	m.mu.Unlock()
	if p == nil || !p.Options.GetPreStartRequired() {
		return nil
	}
	if has == nil {
		return fmt.Errorf("no devices found allocated in local cache for pod %s, container %s, resource %s", w.pod.UID,
			w.container.Name, w.resource)
	}
	return p.PreStart(ctx, slices.Sorted(maps.Keys(has)))
}
