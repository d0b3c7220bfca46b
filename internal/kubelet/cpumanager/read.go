package cpumanager

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/pod"
)

// usesPodLevelResources tells whether a Pod is given CPUs as a whole.
func (p *static) usesPodLevelResources(pd *v1.Pod) bool {
	return p.podLevel && pod.HasPodLevelResources(pd)
}

// Static tells whether the policy gives CPUs away: cpusets are set only then.
func (m *Manager) Static() bool { return m.policy != nil }

// GetExclusiveCPUs are the CPUs that only this container has; empty when it runs in the shared
// pool.
func (m *Manager) GetExclusiveCPUs(uid types.UID, container string) cpuset.CPUSet {
	m.mu.Lock()
	defer m.mu.Unlock()
	set, _ := m.state.Exclusive(string(uid), container)
	return set.Clone()
}

// GetPodCPUs are the CPUs that a Pod was given as a whole; empty when its containers were given
// theirs one by one.
func (m *Manager) GetPodCPUs(uid types.UID) cpuset.CPUSet {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Pods[string(uid)].Clone()
}

// GetCPUAffinity are the CPUs that a container may run on: its own, or the shared pool. Empty with
// the policy none: any.
func (m *Manager) GetCPUAffinity(uid types.UID, container string) cpuset.CPUSet {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.policy == nil {
		return cpuset.New()
	}
	if set, ok := m.state.Exclusive(string(uid), container); ok {
		return set.Clone()
	}
	return m.state.Default.Clone()
}

// GetAllocatableCPUs are the CPUs that can be exclusive; empty with the policy none.
func (m *Manager) GetAllocatableCPUs() cpuset.CPUSet {
	if m.policy == nil {
		return cpuset.New()
	}
	return m.t.All().Difference(m.policy.reserved)
}

// HasExclusiveCPUs tells whether a container has CPUs that no other container has: it needs no
// quota then.
func (m *Manager) HasExclusiveCPUs(p *v1.Pod, c *v1.Container) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.state.Exclusive(string(p.UID), c.Name); m.policy == nil || !ok {
		return false
	}
	return !m.policy.usesPodLevelResources(p) ||
		resource.GuaranteedContainer(c) && integral(c.Resources.Limits[v1.ResourceCPU])
}
