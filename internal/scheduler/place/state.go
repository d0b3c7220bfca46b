package place

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// State is the notes of one cycle. It is for judges that write before nodes are asked and only read while they are; a shell whose plugins do otherwise passes its own.
type State struct {
	notes      []note // few: searching is quicker than a map
	skipFilter sets.Set[string]
	skipScore  sets.Set[string]
	skipBind   sets.Set[string]
	parallel   sets.Set[string]
}

var _ framework.CycleState = (*State)(nil)

// NewState is an empty notebook.
func NewState() *State { return &State{} }

// usual is room for the notes of most cycles.
const usual = 8

func (s *State) at(key framework.StateKey) int {
	return slices.IndexFunc(s.notes, func(n note) bool { return n.key == key })
}

// Read finds a note; framework.ErrNotFound when there is none.
func (s *State) Read(key framework.StateKey) (framework.StateData, error) {
	if i := s.at(key); i >= 0 {
		return s.notes[i].value, nil
	}
	return nil, framework.ErrNotFound
}

// Write keeps a note.
func (s *State) Write(key framework.StateKey, v framework.StateData) {
	if i := s.at(key); i >= 0 {
		s.notes[i].value = v
		return
	}
	if s.notes == nil {
		s.notes = make([]note, 0, usual)
	}
	s.notes = append(s.notes, note{key, v})
}

// Delete drops a note.
func (s *State) Delete(key framework.StateKey) {
	s.notes = slices.DeleteFunc(s.notes, func(n note) bool { return n.key == key })
}

// Clone copies the notes, each by its own Clone.
func (s *State) Clone() framework.CycleState {
	if s == nil {
		return nil
	}
	c := *s
	c.notes = slices.Clone(s.notes)
	for i := range c.notes {
		c.notes[i].value = c.notes[i].value.Clone()
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
