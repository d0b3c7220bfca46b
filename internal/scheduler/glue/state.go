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
	c := &State{State: s.State.Clone().(*place.State)}
	m := maps.Clone(*s.notes.Load())
	for k, v := range m {
		m[k] = v.Clone()
	}
	c.notes.Store(&m)
	return c
}
