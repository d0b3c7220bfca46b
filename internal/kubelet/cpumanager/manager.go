package cpumanager

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"

	v1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"github.com/gantry-project/gantry/internal/kubelet/checkpointmanager"
	"github.com/gantry-project/gantry/internal/kubelet/cpumanager/state"
	"github.com/gantry-project/gantry/internal/kubelet/machine"
	"github.com/gantry-project/gantry/internal/kubelet/topologymanager"
	podutil "github.com/gantry-project/gantry/internal/pod"
)

// stateFile is where the assignments are kept, below Config.Directory.
const stateFile = "cpu_manager_state"

// Config is what a Manager is made of.
type Config struct {
	Policy  string            // cpuManagerPolicy
	Options map[string]string // cpuManagerPolicyOptions
	Gate    func(name string) bool
	// CPU of systemReserved and kubeReserved; with ReservedSystemCPUs the number of those
	Reserved           apiresource.Quantity
	ReservedSystemCPUs cpuset.CPUSet // reservedSystemCPUs
	Directory          string        // of the checkpoint: the kubelet's
	TopologyPolicy     string        // topologyManagerPolicy
	// Affinity is what the topology manager decided for a container.
	Affinity func(pod types.UID, container string) topologymanager.Hint
	Metrics  Metrics // may be nil
}

// Metrics counts allocations.
type Metrics interface {
	// CPUPinning counts a container or Pod that was given exclusive CPUs, or not.
	CPUPinning(failed bool)
	// CPUPool are how many CPUs are free to be given away and how many are exclusive, all and by
	// NUMA node.
	CPUPool(shared, exclusive int, byNode map[int]int)
	// AlignedResources counts an allocation by what it is aligned to: physical_cpu or uncore_cache.
	AlignedResources(scope, boundary string, failed bool)
}

// Manager holds which containers have CPUs for their own. Make one with New. It implements
// topologymanager.HintProvider; all methods may be called at once.
type Manager struct {
	c      Config
	t      machine.Topology
	policy *static // nil: the policy none

	mu    sync.Mutex
	state state.State
	reuse reusable
}

// reusable are the CPUs that init containers of one Pod had, which its later containers take again.
type reusable struct {
	pod types.UID
	set cpuset.CPUSet
}

// New checks the configuration against the machine and reads what an earlier kubelet kept. Errors
// are upstream's.
func New(c Config, info machine.Info) (*Manager, error) {
	m := &Manager{c: c, t: info.Topology(), state: state.State{Assignments: state.Assignments{}}}
	switch c.Policy {
	case PolicyNone, "":
		m.c.Policy = PolicyNone
		if len(c.Options) > 0 {
			return nil, fmt.Errorf("new none policy error: None policy: received unsupported options=%v", c.Options)
		}
	case PolicyStatic:
		if c.Reserved.IsZero() {
			return nil, errors.New("[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to " +
				"be greater than zero")
		}
		p, err := m.static()
		if err != nil {
			return nil, fmt.Errorf("new static policy error: %w", err)
		}
		m.policy = p
	default:
		return nil, fmt.Errorf("unknown policy: \"%s\"", c.Policy)
	}
	if err := m.restore(); err != nil {
		return nil, err
	}
	m.count()
	return m, nil
}

func (m *Manager) static() (*static, error) {
	o, err := ParseOptions(m.c.Options, m.c.Gate)
	if err != nil {
		return nil, err
	}
	if err := o.check(m.t, m.c.TopologyPolicy); err != nil {
		return nil, err
	}
	p, err := newStatic(m.t, o, m.c.ReservedSystemCPUs, int(m.c.Reserved.Value())) // Value rounds up
	if err != nil {
		return nil, err
	}
	p.podLevel = m.c.Gate("PodLevelResourceManagers") && m.c.Gate("PodLevelResources")
	return p, nil
}

// restore reads the checkpoint, or makes the first.
func (m *Manager) restore() error {
	blob, found, err := checkpointmanager.Read(m.c.Directory, stateFile)
	if err == nil && found {
		m.state, err = state.Unmarshal(blob, m.c.Policy)
	}
	if err != nil {
		return fmt.Errorf("could not restore state from checkpoint: %w, please drain this node and delete the CPU "+
			"manager checkpoint file %q before restarting Kubelet", err, filepath.Join(m.c.Directory, stateFile))
	}
	if m.policy != nil {
		if err := m.policy.start(&m.state); err != nil {
			return fmt.Errorf("%w: please drain this node and delete the CPU manager checkpoint file %q before "+
				"restarting Kubelet", err, filepath.Join(m.c.Directory, stateFile))
		}
	}
	return m.save(m.state)
}

func (m *Manager) save(s state.State) error {
	blob, err := state.Marshal(m.c.Policy, s)
	if err != nil {
		return err
	}
	if err := checkpointmanager.Write(m.c.Directory, stateFile, blob); err != nil {
		return fmt.Errorf("keep CPU assignments: %w", err)
	}
	return nil
}

// change has f change a copy of the state, which counts once it is on the disk: what is given away
// must outlive the kubelet.
func (m *Manager) change(f func(s *state.State) error) error {
	next := m.state.Clone()
	if err := f(&next); err != nil {
		return err
	}
	if err := m.save(next); err != nil {
		return err
	}
	m.state = next
	m.count()
	return nil
}

func (m *Manager) count() {
	if m.c.Metrics == nil || m.policy == nil {
		return
	}
	all := m.state.All()
	m.c.Metrics.CPUPool(m.policy.available(&m.state).Size(), all.Size(), m.policy.byNode(all))
}

// GetTopologyHints implements topologymanager.HintProvider.
func (m *Manager) GetTopologyHints(pod *v1.Pod, c *v1.Container) map[string][]topologymanager.Hint {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.policy == nil || m.policy.skips(pod) {
		return nil
	}
	n := request(pod, c, m.policy.podLevel)
	if n == 0 {
		return nil
	}
	if has, ok := m.state.Exclusive(string(pod.UID), c.Name); ok {
		return m.hintsFor(has, n)
	}
	return cpuHints(m.policy.hints(m.policy.available(&m.state), m.reusableOf(pod.UID), n))
}

// hintsFor are the hints of a container or Pod that has its CPUs already; none if it wants another
// number now.
func (m *Manager) hintsFor(has cpuset.CPUSet, n int) map[string][]topologymanager.Hint {
	if has.Size() != n {
		return cpuHints([]topologymanager.Hint{})
	}
	return cpuHints(m.policy.hints(has, cpuset.New(), n))
}

func cpuHints(list []topologymanager.Hint) map[string][]topologymanager.Hint {
	return map[string][]topologymanager.Hint{string(v1.ResourceCPU): list}
}

// GetPodTopologyHints implements topologymanager.HintProvider.
func (m *Manager) GetPodTopologyHints(pod *v1.Pod) map[string][]topologymanager.Hint {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.policy == nil || m.policy.skips(pod) {
		return nil
	}
	n := podRequest(pod, m.policy.podLevel)
	if n == 0 {
		return nil
	}
	if m.policy.usesPodLevelResources(pod) && sharedPool(pod) != nil {
		return cpuHints([]topologymanager.Hint{})
	}
	has := cpuset.New()
	for _, c := range podutil.ContainersInOrder(pod) {
		set, ok := m.state.Exclusive(string(pod.UID), c.Name)
		switch {
		case !ok:
		case set.Size() != request(pod, c, m.policy.podLevel):
			return cpuHints([]topologymanager.Hint{})
		}
		has = has.Union(set)
	}
	if has.Size() == n {
		return m.hintsFor(has, n)
	}
	return cpuHints(m.policy.hints(m.policy.available(&m.state), m.reusableOf(pod.UID).Union(has), n))
}

func (m *Manager) reusableOf(pod types.UID) cpuset.CPUSet {
	if m.reuse.pod != pod {
		return cpuset.New()
	}
	return m.reuse.set
}

// Allocate implements topologymanager.HintProvider.
func (m *Manager) Allocate(pod *v1.Pod, c *v1.Container) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.policy == nil || m.policy.skips(pod) {
		return nil
	}
	n := request(pod, c, m.policy.podLevel)
	if n == 0 {
		return nil
	}
	if has, ok := m.state.Exclusive(string(pod.UID), c.Name); ok {
		m.noteReusable(pod, c, has)
		return nil
	}
	var got cpuset.CPUSet
	err := m.change(func(s *state.State) error {
		if err := m.policy.wholeCores(s, n); err != nil {
			return err
		}
		var err error
		got, err = m.policy.allocate(s, n, m.c.Affinity(pod.UID, c.Name).NUMANodeAffinity, m.reusableOf(pod.UID))
		s.Set(string(pod.UID), c.Name, got)
		return err
	})
	m.pinned(got, err)
	if err != nil {
		return err
	}
	m.noteReusable(pod, c, got)
	klog.V(2).InfoS("Allocated exclusive CPUs", "pod", klog.KObj(pod), "containerName", c.Name,
		"cpus", got.String())
	return nil
}

// pinned counts an allocation.
func (m *Manager) pinned(got cpuset.CPUSet, err error) {
	if m.c.Metrics == nil {
		return
	}
	m.c.Metrics.CPUPinning(err != nil)
	if m.policy.o.FullPhysicalCPUs {
		m.c.Metrics.AlignedResources("container", "physical_cpu", err != nil)
	}
	if err == nil && m.t.SharesUncore(got) {
		m.c.Metrics.AlignedResources("container", "uncore_cache", false)
	}
}

// AllocatePod implements topologymanager.PodAllocator.
func (m *Manager) AllocatePod(pod *v1.Pod) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.policy == nil || !m.policy.usesPodLevelResources(pod) {
		return nil
	}
	if _, has := m.state.Pods[string(pod.UID)]; has || podRequest(pod, true) == 0 {
		return nil
	}
	err := m.change(func(s *state.State) error {
		affinity := m.c.Affinity(pod.UID, podutil.ContainersInOrder(pod)[0].Name).NUMANodeAffinity
		return m.policy.allocatePod(s, pod, affinity)
	})
	m.pinned(m.state.Pods[string(pod.UID)], err)
	return err
}

// noteReusable notes what later containers of the Pod take again: the CPUs of init containers that
// end before them, until one has taken them.
func (m *Manager) noteReusable(pod *v1.Pod, c *v1.Container, set cpuset.CPUSet) {
	if m.reuse.pod != pod.UID {
		m.reuse = reusable{pod: pod.UID, set: cpuset.New()}
	}
	if podutil.EndsBeforeOthers(pod, c.Name) {
		m.reuse.set = m.reuse.set.Union(set)
	} else {
		m.reuse.set = m.reuse.set.Difference(set)
	}
}

// Release implements topologymanager.Releaser.
func (m *Manager) Release(pod *v1.Pod) {
	m.RemovePods(func(uid types.UID) bool { return uid == pod.UID })
}

// RemovePods gives back the CPUs of the Pods that are gone. True: there were some.
func (m *Manager) RemovePods(gone func(uid types.UID) bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.policy == nil {
		return false
	}
	next := m.state.Clone()
	changed := false
	for uid, list := range m.state.Assignments {
		if !gone(types.UID(uid)) {
			continue
		}
		changed = true
		for name := range maps.Clone(list) {
			m.policy.release(&next, uid, name)
		}
		if m.reuse.pod == types.UID(uid) {
			m.reuse = reusable{}
		}
	}
	if !changed {
		return false
	}
	if err := m.save(next); err != nil {
		klog.ErrorS(err, "Cannot give CPUs back, trying again")
		return false
	}
	m.state = next
	m.count()
	return true
}
