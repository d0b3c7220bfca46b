package containermanager

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"github.com/gantry-project/gantry/internal/kubelet/cpumanager"
	"github.com/gantry-project/gantry/internal/kubelet/machine"
	"github.com/gantry-project/gantry/internal/kubelet/memorymanager"
	"github.com/gantry-project/gantry/internal/kubelet/metrics"
	"github.com/gantry-project/gantry/internal/kubelet/topologymanager"
	"github.com/gantry-project/gantry/internal/reason"
)

// Runtime changes containers that run; a CRI client does.
type Runtime interface {
	UpdateContainerResources(ctx context.Context, id string, r *runtimeapi.ContainerResources) error
}

// Config is what a Manager is made of.
type Config struct {
	Kubelet      *kubeletconfig.KubeletConfiguration
	Gate         func(name string) bool
	Machine      machine.Info
	NodeReserved v1.ResourceList // what the node keeps from Pods: kube, system and eviction
	Directory    string          // of the checkpoints: the kubelet's
	Runtime      Runtime
	Providers    []topologymanager.HintProvider // asked before CPUs and memory
	Metrics      *metrics.Metrics               // may be nil
}

// Manager holds the managers. Make one with New. Admit, Release and RemoveStale are called one at a
// time; the rest from anywhere.
type Manager struct {
	Topology *topologymanager.Manager
	CPU      *cpumanager.Manager
	Memory   *memorymanager.Manager

	runtime Runtime
	changed chan struct{} // a token: the CPUs of containers that run may have changed
	// Pods that were admitted or readmitted; only Admit, Readmit, Release and RemoveStale use it,
	// which are called one at a time
	admitted map[types.UID]bool

	mu      sync.Mutex
	applied map[string]string // CPUs by container id, as the runtime was told last
}

// New checks the configuration against the machine. The error names the field.
func New(c Config) (*Manager, error) {
	k := c.Kubelet
	m := &Manager{runtime: c.Runtime, changed: make(chan struct{}, 1), applied: map[string]string{},
		admitted: map[types.UID]bool{}}
	var err error
	if m.Topology, err = topologymanager.New(topologymanager.Config{
		Policy: k.TopologyManagerPolicy, Scope: k.TopologyManagerScope, Options: k.TopologyManagerPolicyOptions,
		PodLevel: c.Gate("PodLevelResourceManagers") && c.Gate("PodLevelResources"), Metrics: c.Metrics,
	}, topologymanager.NUMAInfo{Nodes: c.Machine.NodeIDs(), Distances: c.Machine.Distances()}); err != nil {
		return nil, fmt.Errorf("topologyManagerPolicy, topologyManagerScope or topologyManagerPolicyOptions: %w", err)
	}
	reserved, err := cpuset.Parse(k.ReservedSystemCPUs)
	if err != nil {
		return nil, fmt.Errorf("reservedSystemCPUs: unable to parse reserved-cpus list: %w", err)
	}
	if m.CPU, err = cpumanager.New(cpumanager.Config{
		Policy: k.CPUManagerPolicy, Options: k.CPUManagerPolicyOptions, Gate: c.Gate,
		Reserved: *c.NodeReserved.Cpu(), ReservedSystemCPUs: reserved, Directory: c.Directory,
		TopologyPolicy: m.Topology.PolicyName(), Affinity: m.Topology.GetAffinity, Metrics: c.Metrics,
	}, c.Machine); err != nil {
		return nil, fmt.Errorf("cpuManagerPolicy or cpuManagerPolicyOptions: %w", err)
	}
	if m.Memory, err = memorymanager.New(memorymanager.Config{
		Policy: k.MemoryManagerPolicy, Gate: c.Gate, NodeReserved: c.NodeReserved, ReservedMemory: k.ReservedMemory,
		Directory: c.Directory, Affinity: m.Topology.GetAffinity, Metrics: c.Metrics,
	}, c.Machine); err != nil {
		return nil, fmt.Errorf("memoryManagerPolicy or reservedMemory: %w", err)
	}
	for _, p := range append(c.Providers, m.CPU, m.Memory) {
		m.Topology.AddHintProvider(p)
	}
	return m, nil
}

// Admit gives a Pod its resources; a refusal says why it cannot have them, and nothing is given
// then.
func (m *Manager) Admit(p *v1.Pod) *reason.Refusal {
	if m == nil {
		return nil
	}
	refusal := m.Topology.Admit(p)
	if refusal != nil {
		m.Release(p)
		return refusal
	}
	m.admitted[p.UID] = true
	m.notify()
	return nil
}

// Readmit gives a Pod that an earlier kubelet let in what it has already, and what it should have;
// nothing to one that this process has let in or readmitted.
func (m *Manager) Readmit(p *v1.Pod) {
	if m == nil || m.admitted[p.UID] {
		return
	}
	m.admitted[p.UID] = true
	if refusal := m.Topology.Admit(p); refusal != nil {
		klog.ErrorS(refusal, "Cannot allocate exclusive resources for a Pod that runs already", "pod", klog.KObj(p))
	}
	m.notify()
}

// Release takes back what Admit gave: another check refuses the Pod.
func (m *Manager) Release(p *v1.Pod) {
	if m == nil {
		return
	}
	delete(m.admitted, p.UID)
	m.Topology.Release(p)
	m.notify()
}

// RemoveStale takes back what Pods have that are gone.
func (m *Manager) RemoveStale(gone func(uid types.UID) bool) {
	if m == nil {
		return
	}
	if m.CPU.RemovePods(gone) {
		m.notify()
	}
	m.Memory.RemovePods(gone)
	m.Topology.RemovePods(gone)
	maps.DeleteFunc(m.admitted, func(uid types.UID, _ bool) bool { return gone(uid) })
}

func (m *Manager) notify() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// Changed has a token when Reconcile has something to do.
func (m *Manager) Changed() <-chan struct{} { return m.changed }

// PreCreateContainer writes the CPUs and the memory nodes of a container into what the runtime
// makes it from.
func (m *Manager) PreCreateContainer(p *v1.Pod, container string, r *runtimeapi.LinuxContainerResources) {
	if m == nil {
		return
	}
	if cpus := m.CPU.GetCPUAffinity(p.UID, container); !cpus.IsEmpty() {
		r.CpusetCpus = cpus.String()
	}
	m.Memory.Started(p, container)
	var nodes []string
	for _, id := range m.Memory.GetMemoryNUMANodes(p.UID, container) {
		nodes = append(nodes, strconv.Itoa(id))
	}
	r.CpusetMems = strings.Join(nodes, ",")
}

// Static tells whether CPUs or memory are given away at all.
func (m *Manager) Static() bool { return m.CPU.Static() || m.Memory.Static() }

// HasExclusiveCPUs tells whether a container has CPUs that no other has: a quota would only slow it
// down.
func (m *Manager) HasExclusiveCPUs(p *v1.Pod, c *v1.Container) bool {
	return m != nil && m.CPU.HasExclusiveCPUs(p, c)
}

// Container is a container that runs.
type Container struct {
	Pod  types.UID
	Name string
	ID   string
}

// Reconcile brings the CPUs of the containers that run up to date. An error does not keep it from
// the others; it is tried again with the next call.
func (m *Manager) Reconcile(ctx context.Context, running []Container) {
	if m == nil || !m.CPU.Static() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	there := map[string]string{}
	for _, c := range running {
		cpus := m.CPU.GetCPUAffinity(c.Pod, c.Name)
		if cpus.IsEmpty() {
			continue
		}
		if want := cpus.String(); m.applied[c.ID] != want {
			err := m.runtime.UpdateContainerResources(ctx, c.ID, &runtimeapi.ContainerResources{
				Linux: &runtimeapi.LinuxContainerResources{CpusetCpus: want}})
			if err != nil {
				klog.FromContext(ctx).Error(err, "Cannot update the CPUs of a container, trying again", "podUID", c.Pod,
					"containerName", c.Name, "cpuSet", want)
				continue
			}
			m.applied[c.ID] = want
		}
		there[c.ID] = m.applied[c.ID]
	}
	m.applied = there
}
