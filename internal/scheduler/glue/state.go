package glue

import (
	"maps"
	"sync"
	"sync/atomic"

	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/place"
)

// State is a cycle state that plugins may use from several goroutines. Reading, which every plugin does for every node, takes no lock: writers copy.
type State struct {
	*place.State      // which plugins skip
	Measured     bool // plugins are timed one by one
	group        *GroupState
	mu           sync.Mutex
	notes        atomic.Pointer[map[framework.StateKey]framework.StateData]
}

var _ framework.CycleState = (*State)(nil)

// NewState is an empty one.
func NewState() *State {
	s := &State{State: place.NewState()}
	s.notes.Store(&map[framework.StateKey]framework.StateData{})
	return s
}

// GroupState is the notes of a PodGroup's cycle, for plugins that keep something from Pod to Pod. There is one placement: the whole cluster.
type GroupState struct{ *State }

var (
	_ framework.PodGroupCycleState  = (*GroupState)(nil)
	_ framework.PlacementCycleState = (*GroupState)(nil)
)

// NewGroupState is an empty one.
func NewGroupState() *GroupState { return &GroupState{NewState()} }

// GetParentPlacementCycleState is nil: composite groups are not served.
func (*GroupState) GetParentPlacementCycleState() framework.PlacementCycleState { return nil }

// GetPodGroupSchedulingCycle is the group's notes.
func (g *GroupState) GetPodGroupSchedulingCycle() framework.PodGroupCycleState { return g }

// Within says that the Pod's cycle is a part of its group's; nil ends that, before it is bound.
func (s *State) Within(g *GroupState) { s.group = g }

// IsPodGroupSchedulingCycle tells whether the cycle is a part of a group's.
func (s *State) IsPodGroupSchedulingCycle() bool { return s.group != nil }

// ShouldSkipAllPostFilterPlugins is so in a group's cycle: what can be done is done for the group.
func (s *State) ShouldSkipAllPostFilterPlugins() bool { return s.group != nil }

// GetPodGroupSchedulingCycle is the notes of the group's cycle; nil outside one.
func (s *State) GetPodGroupSchedulingCycle() framework.PodGroupCycleState {
	if s.group == nil {
		return nil
	}
	return s.group
}

// GetPlacementCycleState is the same notes: there is one placement.
func (s *State) GetPlacementCycleState() framework.PlacementCycleState {
	if s.group == nil {
		return nil
	}
	return s.group
}

// ShouldRecordPluginMetrics is Measured.
func (s *State) ShouldRecordPluginMetrics() bool { return s.Measured }

// Read finds a note; framework.ErrNotFound when there is none.
func (s *State) Read(key framework.StateKey) (framework.StateData, error) {
	if v, ok := (*s.notes.Load())[key]; ok {
		return v, nil
	}
	return nil, framework.ErrNotFound
}

// Write keeps a note.
func (s *State) Write(key framework.StateKey, v framework.StateData) {
	s.change(func(m map[framework.StateKey]framework.StateData) { m[key] = v })
}

// Delete drops a note.
func (s *State) Delete(key framework.StateKey) {
	s.change(func(m map[framework.StateKey]framework.StateData) { delete(m, key) })
}

func (s *State) change(do func(map[framework.StateKey]framework.StateData)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := maps.Clone(*s.notes.Load())
	do(m)
	s.notes.Store(&m)
}

// Clone copies the notes, each by its own Clone.
func (s *State) Clone() framework.CycleState {
	if s == nil {
		return nil
	}
	c := &State{State: s.State.Clone().(*place.State), group: s.group}
	m := maps.Clone(*s.notes.Load())
	for k, v := range m {
		m[k] = v.Clone()
	}
	c.notes.Store(&m)
	return c
}
