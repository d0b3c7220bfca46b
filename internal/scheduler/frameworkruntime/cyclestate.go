package frameworkruntime

import (
	"maps"
	"sync"
	"sync/atomic"

	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// CycleState is the state of one cycle, which several goroutines may use. Read, which every plugin
// calls for every node, takes no lock: Write copies.
type CycleState struct {
	*schedule.CycleState      // which plugins skip
	RecordPluginMetrics  bool // plugins are timed one by one
	podGroup             *PodGroupCycleState
	mu                   sync.Mutex
	entries              atomic.Pointer[map[framework.StateKey]framework.StateData]
}

var _ framework.CycleState = (*CycleState)(nil)

// NewCycleState makes an empty one.
func NewCycleState() *CycleState {
	s := &CycleState{CycleState: schedule.NewCycleState()}
	s.entries.Store(&map[framework.StateKey]framework.StateData{})
	return s
}

// PodGroupCycleState is the state of a PodGroup's cycle, for plugins that keep something from Pod
// to Pod. There is one placement: the whole cluster.
type PodGroupCycleState struct{ *CycleState }

var (
	_ framework.PodGroupCycleState  = (*PodGroupCycleState)(nil)
	_ framework.PlacementCycleState = (*PodGroupCycleState)(nil)
)

// NewPodGroupCycleState makes an empty one.
func NewPodGroupCycleState() *PodGroupCycleState { return &PodGroupCycleState{NewCycleState()} }

// GetParentPlacementCycleState is nil: composite groups are not served.
func (*PodGroupCycleState) GetParentPlacementCycleState() framework.PlacementCycleState { return nil }

// GetPodGroupSchedulingCycle is g itself.
func (g *PodGroupCycleState) GetPodGroupSchedulingCycle() framework.PodGroupCycleState { return g }

// SetPodGroupCycle makes the Pod's cycle a part of its PodGroup's; nil ends that, before the Pod is
// bound.
func (s *CycleState) SetPodGroupCycle(g *PodGroupCycleState) { s.podGroup = g }

// IsPodGroupSchedulingCycle tells whether the cycle is a part of a PodGroup's.
func (s *CycleState) IsPodGroupSchedulingCycle() bool { return s.podGroup != nil }

// ShouldSkipAllPostFilterPlugins is true in a PodGroup's cycle: PostFilter runs for the group.
func (s *CycleState) ShouldSkipAllPostFilterPlugins() bool { return s.podGroup != nil }

// GetPodGroupSchedulingCycle is the state of the PodGroup's cycle; nil outside one.
func (s *CycleState) GetPodGroupSchedulingCycle() framework.PodGroupCycleState {
	if s.podGroup == nil {
		return nil
	}
	return s.podGroup
}

// GetPlacementCycleState is the same state: there is one placement.
func (s *CycleState) GetPlacementCycleState() framework.PlacementCycleState {
	if s.podGroup == nil {
		return nil
	}
	return s.podGroup
}

// ShouldRecordPluginMetrics is RecordPluginMetrics.
func (s *CycleState) ShouldRecordPluginMetrics() bool { return s.RecordPluginMetrics }

// Read finds the data of a key; framework.ErrNotFound when there is none.
func (s *CycleState) Read(key framework.StateKey) (framework.StateData, error) {
	if v, ok := (*s.entries.Load())[key]; ok {
		return v, nil
	}
	return nil, framework.ErrNotFound
}

// Write keeps data under a key.
func (s *CycleState) Write(key framework.StateKey, v framework.StateData) {
	s.update(func(m map[framework.StateKey]framework.StateData) { m[key] = v })
}

// Delete drops the data of a key.
func (s *CycleState) Delete(key framework.StateKey) {
	s.update(func(m map[framework.StateKey]framework.StateData) { delete(m, key) })
}

func (s *CycleState) update(do func(map[framework.StateKey]framework.StateData)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := maps.Clone(*s.entries.Load())
	do(m)
	s.entries.Store(&m)
}

// Clone copies the state, each datum by its own Clone.
func (s *CycleState) Clone() framework.CycleState {
	if s == nil {
		return nil
	}
	c := &CycleState{CycleState: s.CycleState.Clone().(*schedule.CycleState), podGroup: s.podGroup}
	m := maps.Clone(*s.entries.Load())
	for k, v := range m {
		m[k] = v.Clone()
	}
	c.entries.Store(&m)
	return c
}
