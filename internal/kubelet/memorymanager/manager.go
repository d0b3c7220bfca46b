package memorymanager

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/checkpointmanager"
	"github.com/gantry-project/gantry/internal/kubelet/machine"
	"github.com/gantry-project/gantry/internal/kubelet/memorymanager/state"
	"github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/kubelet/topologymanager"
	"github.com/gantry-project/gantry/internal/pod"
)

// stateFile is where the assignments are kept, below Config.Directory.
const stateFile = "memory_manager_state"

// Config is what a Manager is made of.
type Config struct {
	Policy         string // memoryManagerPolicy
	Gate           func(name string) bool
	NodeReserved   v1.ResourceList             // what the node keeps from Pods: kube, system and eviction
	ReservedMemory []kubelet.MemoryReservation // reservedMemory
	Directory      string                      // of the checkpoint: the kubelet's
	// Affinity is what the topology manager decided for a container.
	Affinity func(pod types.UID, container string) topologymanager.Hint
	Metrics  Metrics // may be nil
}

// Metrics counts allocations.
type Metrics interface {
	// MemoryPinning counts a container or Pod that was given exclusive memory, or not.
	MemoryPinning(failed bool)
}

// Manager holds which containers have memory for their own. Make one with New. It implements
// topologymanager.HintProvider; all methods may be called at once.
type Manager struct {
	c        Config
	isStatic bool
	podLevel bool

	mu       sync.Mutex
	state    state.State
	reusePod types.UID // whose init containers' memory is in reuse
	reuse    reusable
}

// New checks the configuration against the machine and reads what an earlier kubelet kept. Errors
// are upstream's.
func New(c Config, info machine.Info) (*Manager, error) {
	m := &Manager{c: c, podLevel: c.Gate("PodLevelResourceManagers") && c.Gate("PodLevelResources"), reuse: reusable{}}
	var empty state.NUMANodeMap
	switch c.Policy {
	case kubelet.NoneMemoryManagerPolicy, "":
		m.c.Policy = kubelet.NoneMemoryManagerPolicy
	case kubelet.StaticMemoryManagerPolicy:
		reserved, err := reservedByNode(info, c.NodeReserved, c.ReservedMemory)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(slices.Collect(maps.Values(reserved)),
			func(a amounts) bool { return a[v1.ResourceMemory] > 0 }) {
			return nil, errors.New("[memorymanager] you should specify the system reserved memory")
		}
		m.isStatic, empty = true, newMachine(info, reserved)
	case "BestEffort":
		return nil, fmt.Errorf("policy %q is not available for platform %q", c.Policy, "linux")
	default:
		return nil, fmt.Errorf("unknown policy: %q", c.Policy)
	}
	return m, m.restore(empty)
}

// restore reads the checkpoint, or makes the first.
func (m *Manager) restore(empty state.NUMANodeMap) error {
	at := filepath.Join(m.c.Directory, stateFile)
	blob, found, err := checkpointmanager.Read(m.c.Directory, stateFile)
	if err == nil && found {
		m.state, err = state.Unmarshal(blob, m.c.Policy)
	}
	if err != nil {
		return fmt.Errorf("could not restore state from checkpoint: %w, please drain this node and delete the memory "+
			"manager checkpoint file %q before restarting Kubelet", err, at)
	}
	m.state = m.state.Clone()
	if !m.podLevel {
		m.state.Pods = state.PodMemoryAssignments{}
	}
	if m.isStatic {
		if err := start(&m.state, empty); err != nil {
			return fmt.Errorf("%w: please drain this node and delete the memory manager checkpoint file %q before "+
				"restarting Kubelet", err, at)
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
		return fmt.Errorf("keep memory assignments: %w", err)
	}
	return nil
}

// change has f change a copy of the state, which counts once it is on the disk.
func (m *Manager) change(f func(s *state.State) error) error {
	next := m.state.Clone()
	if err := f(&next); err != nil {
		return err
	}
	if err := m.save(next); err != nil {
		return err
	}
	m.state = next
	return nil
}

// applies tells whether a Pod has exclusive memory: a Guaranteed one. One with pod-level
// resources only where those are known.
func (m *Manager) applies(p *v1.Pod) bool {
	return m.isStatic && resource.QOS(p) == v1.PodQOSGuaranteed && (m.podLevel || !pod.HasPodLevelResources(p))
}

// GetTopologyHints implements topologymanager.HintProvider.
func (m *Manager) GetTopologyHints(p *v1.Pod, c *v1.Container) map[string][]topologymanager.Hint {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.applies(p) {
		return nil
	}
	r, err := request(p, c, m.podLevel)
	if err != nil || len(r) == 0 {
		return nil
	}
	if has := m.state.Assignments[string(p.UID)][c.Name]; has != nil {
		return hintsFor(has, r)
	}
	return hints(m.state.Machine, m.reusableOf(p.UID), r)
}

// hintsFor are the hints of a container that has its memory already; nil if it wants other sizes
// now.
func hintsFor(has []state.Block, r amounts) map[string][]topologymanager.Hint {
	if len(has) != len(r) {
		return nil
	}
	out := map[string][]topologymanager.Hint{}
	for _, b := range has {
		if n, asked := r[b.Type]; !asked || n != b.Size {
			return nil
		}
		out[string(b.Type)] = append(out[string(b.Type)],
			topologymanager.Hint{NUMANodeAffinity: topologymanager.MaskOf(b.NUMAAffinity...), Preferred: true})
	}
	return out
}

// GetPodTopologyHints implements topologymanager.HintProvider.
func (m *Manager) GetPodTopologyHints(p *v1.Pod) map[string][]topologymanager.Hint {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.applies(p) {
		return nil
	}
	r, err := podRequest(p, m.podLevel)
	if err != nil || len(r) == 0 {
		return nil
	}
	if m.usesPodLevelResources(p) && sharedPool(p) != nil {
		out := map[string][]topologymanager.Hint{}
		for name := range r {
			out[string(name)] = []topologymanager.Hint{}
		}
		return out
	}
	for _, c := range pod.ContainersInOrder(p) {
		if has := m.state.Assignments[string(p.UID)][c.Name]; has != nil {
			return hintsFor(has, r)
		}
	}
	return hints(m.state.Machine, nil, r)
}

func (m *Manager) usesPodLevelResources(p *v1.Pod) bool {
	return m.podLevel && pod.HasPodLevelResources(p)
}

func (m *Manager) reusableOf(uid types.UID) reusable {
	if m.reusePod != uid {
		return nil
	}
	return m.reuse
}

// Allocate implements topologymanager.HintProvider.
func (m *Manager) Allocate(p *v1.Pod, c *v1.Container) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.applies(p) {
		return nil
	}
	r, err := request(p, c, m.podLevel)
	if err != nil || len(r) == 0 {
		return err
	}
	if has := m.state.Assignments[string(p.UID)][c.Name]; has != nil {
		m.noteReusable(p, c, has)
		return nil
	}
	err = m.change(func(s *state.State) error {
		return allocate(s, m.reusableOf(p.UID),
			allocation{pod: p, container: c, request: r, affinity: m.c.Affinity(p.UID, c.Name)})
	})
	if m.c.Metrics != nil {
		m.c.Metrics.MemoryPinning(err != nil)
	}
	if err != nil {
		return err
	}
	m.noteReusable(p, c, m.state.Assignments[string(p.UID)][c.Name])
	klog.V(2).InfoS("Allocated exclusive memory", "pod", klog.KObj(p), "containerName", c.Name)
	return nil
}

func (m *Manager) noteReusable(p *v1.Pod, c *v1.Container, list []state.Block) {
	if m.reusePod != p.UID {
		m.reusePod, m.reuse = p.UID, reusable{}
	}
	m.reuse.note(p, c, list)
}

// AllocatePod implements topologymanager.PodAllocator.
func (m *Manager) AllocatePod(p *v1.Pod) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, has := m.state.Pods[string(p.UID)]; has || !m.applies(p) || !m.usesPodLevelResources(p) {
		return nil
	}
	err := m.change(func(s *state.State) error {
		return allocatePod(s, p, m.c.Affinity(p.UID, pod.ContainersInOrder(p)[0].Name))
	})
	if m.c.Metrics != nil {
		m.c.Metrics.MemoryPinning(err != nil)
	}
	return err
}

// Release implements topologymanager.Releaser.
func (m *Manager) Release(p *v1.Pod) { m.RemovePods(func(uid types.UID) bool { return uid == p.UID }) }

// RemovePods takes back the memory of the Pods that are gone.
func (m *Manager) RemovePods(gone func(uid types.UID) bool) {
	m.remove(func(uid, _ string) bool { return gone(types.UID(uid)) })
}

// Started notes that a container of a Pod starts: init containers before it have ended, and their
// memory is free for others.
func (m *Manager) Started(p *v1.Pod, container string) {
	ended := map[string]bool{}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.Name == container {
			break
		}
		ended[c.Name] = !pod.IsSidecar(c)
	}
	m.remove(func(uid, name string) bool { return uid == string(p.UID) && ended[name] })
}

func (m *Manager) remove(gone func(uid, container string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := m.state.Clone()
	changed, reused := false, false
	for uid, list := range m.state.Assignments {
		for name := range list {
			if gone(uid, name) {
				release(&next, uid, name)
				changed, reused = true, reused || types.UID(uid) == m.reusePod
			}
		}
	}
	if !changed {
		return
	}
	if err := m.save(next); err != nil {
		klog.ErrorS(err, "Cannot take memory back, trying again")
		return
	}
	m.state = next
	if reused { // what it counted as reusable is free for others now
		m.reuse = reusable{}
	}
}

// Static tells whether the policy gives memory away.
func (m *Manager) Static() bool { return m.isStatic }

// GetMemoryNUMANodes are the nodes that a container's memory is on, ascending; none: any.
func (m *Manager) GetMemoryNUMANodes(uid types.UID, container string) []int {
	var nodes []int
	for _, b := range m.GetMemory(uid, container) {
		nodes = append(nodes, b.NUMAAffinity...)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// GetMemory is the memory that a container has for its own.
func (m *Manager) GetMemory(uid types.UID, container string) []state.Block {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Clone().Assignments[string(uid)][container]
}

// GetPodMemory is the memory that a Pod was given as a whole.
func (m *Manager) GetPodMemory(uid types.UID) []state.Block {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Clone().Pods[string(uid)].MemoryBlocks
}

// HasOwnMemory tells whether a container has memory that the other containers of its Pod do not
// use.
func (m *Manager) HasOwnMemory(p *v1.Pod, c *v1.Container) bool {
	return len(m.GetMemory(p.UID, c.Name)) > 0 && (!m.usesPodLevelResources(p) || resource.GuaranteedContainer(c))
}

// GetAllocatableMemory is the memory that can be given away, by node and kind; none with the policy
// None.
func (m *Manager) GetAllocatableMemory() []state.Block {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []state.Block
	for _, id := range slices.Sorted(maps.Keys(m.state.Machine)) {
		tables := m.state.Machine[id].MemoryMap
		for _, name := range slices.Sorted(maps.Keys(tables)) {
			if n := tables[name].Allocatable; n > 0 {
				out = append(out, state.Block{NUMAAffinity: []int{id}, Type: name, Size: n})
			}
		}
	}
	return out
}
