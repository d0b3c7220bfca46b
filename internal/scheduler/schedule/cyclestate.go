package schedule

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// CycleState holds the entries of one cycle. It is for plugins that write before nodes are asked
// and only read while they are; a caller whose plugins do otherwise passes its own.
type CycleState struct {
	entries         []stateEntry // few: searching is quicker than a map
	skipFilter      sets.Set[string]
	skipScore       sets.Set[string]
	skipBind        sets.Set[string]
	parallelPreBind sets.Set[string]
}

var _ framework.CycleState = (*CycleState)(nil)

// NewCycleState is empty.
func NewCycleState() *CycleState { return &CycleState{} }

// usualEntries is room for the entries of most cycles.
const usualEntries = 8

func (s *CycleState) indexOf(key framework.StateKey) int {
	return slices.IndexFunc(s.entries, func(n stateEntry) bool { return n.key == key })
}

// Read finds an entry; framework.ErrNotFound when there is none.
func (s *CycleState) Read(key framework.StateKey) (framework.StateData, error) {
	if i := s.indexOf(key); i >= 0 {
		return s.entries[i].value, nil
	}
	return nil, framework.ErrNotFound
}

// Write keeps an entry.
func (s *CycleState) Write(key framework.StateKey, v framework.StateData) {
	if i := s.indexOf(key); i >= 0 {
		s.entries[i].value = v
		return
	}
	if s.entries == nil {
		s.entries = make([]stateEntry, 0, usualEntries)
	}
	s.entries = append(s.entries, stateEntry{key, v})
}

// Delete drops an entry.
func (s *CycleState) Delete(key framework.StateKey) {
	s.entries = slices.DeleteFunc(s.entries, func(n stateEntry) bool { return n.key == key })
}

// Clone copies the entries, each by its own Clone.
func (s *CycleState) Clone() framework.CycleState {
	if s == nil {
		return nil
	}
	c := *s
	c.entries = slices.Clone(s.entries)
	for i := range c.entries {
		c.entries[i].value = c.entries[i].value.Clone()
	}
	return &c
}

// ShouldRecordPluginMetrics is false: nothing is measured here.
func (s *CycleState) ShouldRecordPluginMetrics() bool { return false }

// GetSkipFilterPlugins names plugins that skipped at PreFilter.
func (s *CycleState) GetSkipFilterPlugins() sets.Set[string] { return s.skipFilter }

// SetSkipFilterPlugins remembers them.
func (s *CycleState) SetSkipFilterPlugins(p sets.Set[string]) { s.skipFilter = p }

// GetSkipScorePlugins names plugins that skipped at RunPreScorePlugins.
func (s *CycleState) GetSkipScorePlugins() sets.Set[string] { return s.skipScore }

// SetSkipScorePlugins remembers them.
func (s *CycleState) SetSkipScorePlugins(p sets.Set[string]) { s.skipScore = p }

// GetSkipPreBindPlugins names plugins that skipped before binding.
func (s *CycleState) GetSkipPreBindPlugins() sets.Set[string] { return s.skipBind }

// SetSkipPreBindPlugins remembers them.
func (s *CycleState) SetSkipPreBindPlugins(p sets.Set[string]) { s.skipBind = p }

// GetParallelPreBindPlugins names plugins whose PreBind may run beside others.
func (s *CycleState) GetParallelPreBindPlugins() sets.Set[string] { return s.parallelPreBind }

// SetParallelPreBindPlugins remembers them.
func (s *CycleState) SetParallelPreBindPlugins(p sets.Set[string]) { s.parallelPreBind = p }

// ShouldSkipAllPostFilterPlugins is false: no Pod groups.
func (s *CycleState) ShouldSkipAllPostFilterPlugins() bool { return false }

// IsPodGroupSchedulingCycle is false: Pod groups are not served.
func (s *CycleState) IsPodGroupSchedulingCycle() bool { return false }

// GetPodGroupSchedulingCycle is nil: Pod groups are not served.
func (s *CycleState) GetPodGroupSchedulingCycle() framework.PodGroupCycleState { return nil }

// GetPlacementCycleState is nil: placements of Pod groups are not served.
func (s *CycleState) GetPlacementCycleState() framework.PlacementCycleState { return nil }

// snapshotKey is where SchedulePod leaves the snapshot for plugins that need more than the node
// before them.
const snapshotKey framework.StateKey = "place/world"

type snapshotEntry struct {
	*snapshot.Snapshot
	withNominated bool
}

// Clone shares the snapshot, which never changes.
func (w snapshotEntry) Clone() framework.StateData { return w }

// ConsidersNominatedPods tells whether nodes may be evaluated with Pods on them that are only
// nominated to come: with more than the snapshot shows.
func ConsidersNominatedPods(s framework.CycleState) bool {
	v, err := s.Read(snapshotKey)
	w, ok := v.(snapshotEntry)
	return err == nil && ok && w.withNominated
}

// SnapshotOf gives the snapshot a cycle is about; nil when the state is not of a cycle begun by
// SchedulePod.
func SnapshotOf(s framework.CycleState) *snapshot.Snapshot {
	v, err := s.Read(snapshotKey)
	if err != nil {
		return nil
	}
	w, _ := v.(snapshotEntry)
	return w.Snapshot
}
