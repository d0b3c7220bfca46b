package manager

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/gantry-project/gantry/internal/kubelet/topologymanager"
)

// HintProvider is what the topology manager asks. Its Allocate only reserves: plugins are asked
// afterwards, by Manager.Allocate, so that one that hangs holds up nobody but its own Pod.
func (m *Manager) HintProvider() topologymanager.HintProvider { return hintProvider{m} }

type hintProvider struct{ *Manager }

// Allocate reserves devices for a container. One that has them from before the kubelet's start
// keeps them, whatever their plugin says.
func (h hintProvider) Allocate(pod *v1.Pod, c *v1.Container) error {
	return h.Reserve(context.Background(), pod, c) // what it asks a plugin has a limit of its own
}

// GetTopologyHints are the NUMA nodes that a container's devices could come from.
func (h hintProvider) GetTopologyHints(pod *v1.Pod, c *v1.Container) map[string][]topologymanager.Hint {
	return h.hints(c.Resources.Limits, func(r *hintRequest, resource string) {
		r.Has = h.pods.Container(pod.UID, c.Name, resource)
		r.Reusable = h.pods.Reusable(pod, resource)
	})
}

// GetPodTopologyHints are those for all containers of the Pod together.
func (h hintProvider) GetPodTopologyHints(pod *v1.Pod) map[string][]topologymanager.Hint {
	limits := resource.PodLimits(pod, resource.PodResourcesOptions{ExcludeOverhead: true})
	return h.hints(limits, func(r *hintRequest, resource string) {
		r.Has = h.pods.Pod(pod.UID, resource)
	})
}

// hints are the hints for the resources of device plugins among the limits; add fills in what the
// caller has already, with m.mu held.
func (m *Manager) hints(limits v1.ResourceList,
	add func(r *hintRequest, resource string)) map[string][]topologymanager.Hint {
	m.freeEnded()
	out := map[string][]topologymanager.Hint{}
	for name, quantity := range limits {
		if !m.serves(string(name)) {
			continue
		}
		m.mu.Lock()
		r := hintRequest{Required: int(quantity.Value()), Devices: m.inventory[string(name)],
			InUse: m.pods.InUse(string(name)), MachineNodes: m.d.NUMANodes}
		add(&r, string(name))
		m.mu.Unlock()
		out[string(name)] = hintsOf(r)
	}
	return out
}
