package glue

import (
	"sync"

	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/place"
)

// State is a cycle state that plugins may use from several goroutines.
type State struct {
	*place.State
	mu sync.RWMutex
}

// NewState is an empty one.
func NewState() *State { return &State{State: place.NewState()} }

// Read finds a note.
func (s *State) Read(key framework.StateKey) (framework.StateData, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.State.Read(key)
}

// Write keeps a note.
func (s *State) Write(key framework.StateKey, v framework.StateData) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.State.Write(key, v)
}

// Delete drops a note.
func (s *State) Delete(key framework.StateKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.State.Delete(key)
}

// Clone copies the notes.
func (s *State) Clone() framework.CycleState {
	if s == nil {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return &State{State: s.State.Clone().(*place.State)}
}

// ShouldRecordPluginMetrics is false: points are measured, not single plugins.
func (s *State) ShouldRecordPluginMetrics() bool { return false }
