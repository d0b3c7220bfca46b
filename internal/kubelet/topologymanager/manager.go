package topologymanager

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"

	podutil "github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// Config is the configuration of a Manager.
type Config struct {
	Policy  string            // topologyManagerPolicy
	Scope   string            // topologyManagerScope
	Options map[string]string // topologyManagerPolicyOptions
	// PodLevel allocates for Pods with pod-level resources (PodLevelResourceManagers).
	PodLevel bool
	Metrics  Metrics // may be nil
}

// Metrics counts admissions.
type Metrics interface {
	// TopologyAdmission counts a Pod that was admitted or refused. Aligned: the policy guarantees
	// one NUMA node; scope is the configured one.
	TopologyAdmission(scope string, aligned, admitted bool, took time.Duration)
}

// Manager admits Pods by the NUMA nodes that their resources come from. Make one with New. Admit
// and Release are called one at a time; GetAffinity may be called from anywhere.
type Manager struct {
	policy    Policy
	scope     string
	podLevel  bool
	numa      NUMAInfo
	metrics   Metrics
	providers []HintProvider

	mu       sync.Mutex
	affinity map[types.UID]map[string]Hint
}

// New checks the configuration against the machine. The errors are upstream's.
func New(c Config, numa NUMAInfo) (*Manager, error) {
	m := &Manager{scope: c.Scope, podLevel: c.PodLevel, numa: numa, metrics: c.Metrics,
		affinity: map[types.UID]map[string]Hint{}}
	switch c.Policy {
	case kubelet.NoneTopologyManagerPolicy, "":
		m.policy.Name = kubelet.NoneTopologyManagerPolicy
		return m, nil
	case kubelet.BestEffortTopologyManagerPolicy, kubelet.RestrictedTopologyManagerPolicy,
		kubelet.SingleNumaNodeTopologyManagerPolicy:
	default:
		return nil, fmt.Errorf("unknown policy: \"%s\"", c.Policy)
	}
	o, err := ParseOptions(c.Options)
	if err != nil {
		return nil, err
	}
	if o.PreferClosestNUMA {
		for _, n := range numa.Nodes {
			if numa.Distances[n] == nil {
				return nil, fmt.Errorf("cannot discover NUMA topology: no distances of NUMA node %d", n)
			}
		}
	}
	if len(numa.Nodes) > o.MaxAllowableNUMANodes {
		return nil, fmt.Errorf("unsupported on machines with more than %v NUMA Nodes", o.MaxAllowableNUMANodes)
	}
	if _, err := NewMask(numa.Nodes...); err != nil {
		return nil, fmt.Errorf("cannot discover NUMA topology: %w", err)
	}
	if c.Scope != kubelet.ContainerTopologyManagerScope && c.Scope != kubelet.PodTopologyManagerScope {
		return nil, fmt.Errorf("unknown scope: \"%s\"", c.Scope)
	}
	m.policy = Policy{Name: c.Policy, Options: o}
	return m, nil
}

// AddHintProvider has a provider asked. Call it before the first Admit.
func (m *Manager) AddHintProvider(p HintProvider) { m.providers = append(m.providers, p) }

// PolicyName is the policy in force.
func (m *Manager) PolicyName() string { return m.policy.Name }

// GetAffinity is the affinity that was decided for a container; the zero Hint where none was.
func (m *Manager) GetAffinity(pod types.UID, container string) Hint {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.affinity[pod][container]
}

func (m *Manager) setAffinity(pod types.UID, container string, h Hint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.affinity[pod] == nil {
		m.affinity[pod] = map[string]Hint{}
	}
	m.affinity[pod][container] = h
}

// Admit has every provider allocate for the Pod's containers; nil lets the Pod in. When the Pod is
// refused, here or later by another check, Release takes back what was given.
func (m *Manager) Admit(pod *v1.Pod) *reason.Refusal {
	begun := time.Now()
	err := m.admit(pod)
	if m.metrics != nil {
		m.metrics.TopologyAdmission(m.scope, m.policy.Name == kubelet.SingleNumaNodeTopologyManagerPolicy, err == nil,
			time.Since(begun))
	}
	return refusalOf(err)
}

// Release takes back what Admit gave a Pod.
func (m *Manager) Release(pod *v1.Pod) {
	for _, p := range m.providers {
		if r, ok := p.(Releaser); ok {
			r.Release(pod)
		}
	}
	m.RemovePods(func(uid types.UID) bool { return uid == pod.UID })
}

// RemovePods forgets the affinities of the Pods that are gone.
func (m *Manager) RemovePods(gone func(pod types.UID) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.affinity, func(pod types.UID, _ map[string]Hint) bool { return gone(pod) })
}

func (m *Manager) admit(pod *v1.Pod) error {
	switch {
	case m.policy.Name == kubelet.NoneTopologyManagerPolicy:
		return eachContainer(pod, func(c *v1.Container) error { return m.allocate(pod, c) })
	case m.scope == kubelet.PodTopologyManagerScope:
		return m.admitPod(pod)
	}
	return eachContainer(pod, func(c *v1.Container) error {
		var hints []map[string][]Hint
		for _, p := range m.providers {
			hints = append(hints, p.GetTopologyHints(pod, c))
		}
		best, ok := m.policy.Decide(hints, m.numa)
		if !ok {
			return m.refuse(pod,
				"pod with pod-level resources failed admission with a container-level topology manager")
		}
		m.setAffinity(pod.UID, c.Name, best)
		return m.allocate(pod, c)
	})
}

// admitPod decides once for all containers.
func (m *Manager) admitPod(pod *v1.Pod) error {
	var hints []map[string][]Hint
	for _, p := range m.providers {
		hints = append(hints, p.GetPodTopologyHints(pod))
	}
	best, ok := m.policy.Decide(hints, m.numa)
	if !ok {
		return m.refuse(pod, "pod with pod-level resources failed admission under pod-scope topology manager")
	}
	whole := m.podLevel && resourcehelper.IsPodLevelResourcesSet(pod)
	err := eachContainer(pod, func(c *v1.Container) error {
		m.setAffinity(pod.UID, c.Name, best)
		if whole {
			return nil
		}
		return m.allocate(pod, c)
	})
	if err != nil || !whole {
		return err
	}
	for _, p := range m.providers {
		if a, ok := p.(PodAllocator); ok {
			if err := a.AllocatePod(pod); err != nil {
				return err
			}
		}
	}
	return nil
}

// refuse is the refusal of a Pod without an affinity; podLevel is the text for one with resources
// of its own.
func (m *Manager) refuse(pod *v1.Pod, podLevel string) error {
	r := &reason.Refusal{Code: reason.AdmitTopologyAffinity, By: "kubelet/topologymanager",
		Detail: "Resources cannot be allocated with Topology locality",
		Fix:    "ask for no more than one NUMA node has free, or choose another topologyManagerPolicy"}
	if m.podLevel && resourcehelper.IsPodLevelResourcesSet(pod) {
		r.Detail = "Pod Scope " + podLevel
	}
	return r
}

func (m *Manager) allocate(pod *v1.Pod, c *v1.Container) error {
	for _, p := range m.providers {
		if err := p.Allocate(pod, c); err != nil {
			return err
		}
	}
	return nil
}

// eachContainer calls f for init containers and containers in the order of the Pod, until it fails.
func eachContainer(pod *v1.Pod, f func(c *v1.Container) error) error {
	for _, c := range podutil.ContainersInOrder(pod) {
		if err := f(c); err != nil {
			return err
		}
	}
	return nil
}

// refusalOf is an error as the reason why a Pod is refused.
func refusalOf(err error) *reason.Refusal {
	var r *reason.Refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &r):
		return r
	}
	return &reason.Refusal{Code: reason.AdmitUnexpected, By: "kubelet/topologymanager",
		Detail: fmt.Sprintf("Allocate failed due to %v, which is unexpected", err), Err: err}
}
