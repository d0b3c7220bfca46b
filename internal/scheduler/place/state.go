package place

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// State is the notes of one cycle. It is for judges that write before nodes are asked and only read while they are; a shell whose plugins do otherwise passes its own.
type State struct {
	notes      map[framework.StateKey]framework.StateData
	skipFilter sets.Set[string]
	skipScore  sets.Set[string]
	skipBind   sets.Set[string]
	parallel   sets.Set[string]
}

var _ framework.CycleState = (*State)(nil)

// NewState is an empty notebook.
func NewState() *State { return &State{notes: map[framework.StateKey]framework.StateData{}} }

// Read finds a note; framework.ErrNotFound when there is none.
func (s *State) Read(key framework.StateKey) (framework.StateData, error) {
	if v, ok := s.notes[key]; ok {
		return v, nil
	}
	return nil, framework.ErrNotFound
}

// Write keeps a note.
func (s *State) Write(key framework.StateKey, v framework.StateData) { s.notes[key] = v }

// Delete drops a note.
func (s *State) Delete(key framework.StateKey) { delete(s.notes, key) }

// Clone copies the notes, each by its own Clone.
func (s *State) Clone() framework.CycleState {
	if s == nil {
		return nil
	}
	c := *s
	c.notes = make(map[framework.StateKey]framework.StateData, len(s.notes))
	for k, v := range s.notes {
		c.notes[k] = v.Clone()
	}
	return &c
}

// ShouldRecordPluginMetrics is false: nobody measures here.
func (s *State) ShouldRecordPluginMetrics() bool { return false }

// GetSkipFilterPlugins names plugins that skipped at PreFilter.
func (s *State) GetSkipFilterPlugins() sets.Set[string] { return s.skipFilter }

// SetSkipFilterPlugins remembers them.
func (s *State) SetSkipFilterPlugins(p sets.Set[string]) { s.skipFilter = p }

// GetSkipScorePlugins names plugins that skipped at PreScore.
func (s *State) GetSkipScorePlugins() sets.Set[string] { return s.skipScore }

// SetSkipScorePlugins remembers them.
func (s *State) SetSkipScorePlugins(p sets.Set[string]) { s.skipScore = p }

// GetSkipPreBindPlugins names plugins that skipped before binding.
func (s *State) GetSkipPreBindPlugins() sets.Set[string] { return s.skipBind }

// SetSkipPreBindPlugins remembers them.
func (s *State) SetSkipPreBindPlugins(p sets.Set[string]) { s.skipBind = p }

// GetParallelPreBindPlugins names plugins whose PreBind may run beside others.
func (s *State) GetParallelPreBindPlugins() sets.Set[string] { return s.parallel }

// SetParallelPreBindPlugins remembers them.
func (s *State) SetParallelPreBindPlugins(p sets.Set[string]) { s.parallel = p }

// ShouldSkipAllPostFilterPlugins is false: no Pod groups.
func (s *State) ShouldSkipAllPostFilterPlugins() bool { return false }

// IsPodGroupSchedulingCycle is false: Pod groups are not served.
func (s *State) IsPodGroupSchedulingCycle() bool { return false }

// GetPodGroupSchedulingCycle is nil: Pod groups are not served.
func (s *State) GetPodGroupSchedulingCycle() framework.PodGroupCycleState { return nil }

// GetPlacementCycleState is nil: placements of Pod groups are not served.
func (s *State) GetPlacementCycleState() framework.PlacementCycleState { return nil }

// worldKey is where One leaves the snapshot for judges that need more than the node before them.
const worldKey framework.StateKey = "place/world"

type worldNote struct {
	*snapshot.Snapshot
	promises bool
}

// Clone shares the snapshot, which never changes.
func (w worldNote) Clone() framework.StateData { return w }

// Promises tells whether nodes may be judged with Pods on them that are only promised to come: with more than the snapshot shows.
func Promises(s framework.CycleState) bool {
	v, err := s.Read(worldKey)
	w, ok := v.(worldNote)
	return err == nil && ok && w.promises
}

// WorldOf gives the snapshot a cycle is about; nil when the state is not of a cycle begun by One.
func WorldOf(s framework.CycleState) *snapshot.Snapshot {
	v, err := s.Read(worldKey)
	if err != nil {
		return nil
	}
	w, _ := v.(worldNote)
	return w.Snapshot
}
