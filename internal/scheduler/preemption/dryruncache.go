package preemption

import (
	"cmp"
	"slices"

	policy "k8s.io/api/policy/v1"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

const (
	// maxCachedCandidates bounds the tries of all shapes together; one takes some hundred bytes.
	maxCachedCandidates = 1 << 17
	// minShapes are kept however large the cluster is.
	minShapes = 2
)

// DryRunCache keeps, from search to search, what came of taking Pods away, by shape of the Pod they
// would leave for, so that only nodes that changed are tried again: in their Pods, in who is
// nominated to them, or in what budgets say of those who would leave. The choices are the same as
// without it. It belongs to one goroutine.
type DryRunCache struct {
	plugins       *schedule.PluginSet
	layout        int64
	shapes        map[string]*shapeCandidates
	turn          int64
	key           []byte
	budgets       []*policy.PodDisruptionBudget // as of the last search, in order of name
	pdbGeneration int64                         // grows when they change
	counts        CacheCounts
	nodeVictims   nodeVictimsCache
	nominated     schedule.NominatedByRow
	rows          []int32 // scratch
}

// CacheCounts tell how a DryRunCache was used since it was made.
type CacheCounts struct {
	Hits   int64 // tries that still held
	Misses int64 // tries made for shapes that are kept
}

// Counts tells how the cache was used since it was made.
func (m *DryRunCache) Counts() CacheCounts { return m.counts }

// rowBuffer is room for n rows, until it is asked for again.
func (m *DryRunCache) rowBuffer(n int) []int32 {
	if m == nil {
		return make([]int32, 0, n)
	}
	m.rows = slices.Grow(m.rows[:0], n)
	return m.rows
}

// sameLayout tells whether the memory is about nodes as they are listed in this snapshot.
func (m *DryRunCache) sameLayout(in *Input) bool { return m != nil && in.Snapshot.Layout() != 0 }

// shapeCandidates are the tries for one shape.
type shapeCandidates struct {
	used       int64
	candidates []*dryRunResult // by row; nil: not tried yet
}

// candidatesOf gives what is known for the Pod's shape; nil when its searches cannot be shared.
func (m *DryRunCache) candidatesOf(in *Input) *shapeCandidates {
	if !m.sameLayout(in) {
		return nil
	}
	key, ok := shapeKey(m.key[:0], in)
	if m.key = key; !ok {
		return nil
	}
	if m.plugins != in.Plugins || m.layout != in.Snapshot.Layout() { // nodes came or went: rows mean other nodes now
		m.plugins, m.layout, m.shapes = in.Plugins, in.Snapshot.Layout(), map[string]*shapeCandidates{}
		m.nodeVictims = nodeVictimsCache{byRow: make([]nodeVictims, in.Snapshot.Len())}
	}
	m.setPDBs(in.Budgets)
	m.turn++
	k := m.shapes[string(key)]
	if k == nil {
		m.evictShape(in.Snapshot.Len())
		k = &shapeCandidates{candidates: make([]*dryRunResult, in.Snapshot.Len())}
		m.shapes[string(key)] = k
	}
	k.used = m.turn
	return k
}

// shapeKey is what the filters that are asked read of the Pod, and its priority; false when one of
// them reads more than that and the node.
func shapeKey(to []byte, in *Input) ([]byte, bool) {
	skip := in.State.GetSkipFilterPlugins()
	for _, p := range in.Plugins.PreFilter {
		if p.PreFilterExtensions() != nil && !skip.Has(p.Name()) {
			return to, false
		}
	}
	to = schedule.AppendInt(to, int64(pod.Priority(in.Pod)))
	for i, f := range in.Plugins.Filter {
		if skip.Has(f.Name()) {
			continue
		}
		l, ok := f.(schedule.NodeLocal)
		if !ok {
			return to, false
		}
		if to, ok = l.AppendShape(schedule.AppendInt(to, int64(i)), in.Pod); !ok {
			return to, false
		}
	}
	return to, true
}

// setPDBs notes whether the budgets are still the same.
func (m *DryRunCache) setPDBs(budgets []*policy.PodDisruptionBudget) {
	if len(budgets) == 0 && len(m.budgets) == 0 {
		return
	}
	now := slices.SortedFunc(slices.Values(budgets), func(a, b *policy.PodDisruptionBudget) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if !slices.Equal(now, m.budgets) {
		m.budgets = now
		m.pdbGeneration++
	}
}

// evictShape drops the shape not used for longest when there are enough.
func (m *DryRunCache) evictShape(rows int) {
	if len(m.shapes) < max(maxCachedCandidates/rows, minShapes) {
		return
	}
	oldest, turn := "", m.turn
	for key, k := range m.shapes {
		if k.used < turn {
			oldest, turn = key, k.used
		}
	}
	delete(m.shapes, oldest)
}

// isCurrent tells whether a try would come out the same by now.
func (s *dryRunSearch) isCurrent(t *dryRunResult, now *dryRunInputs) bool {
	if t.node != now.node || !slices.Equal(t.nominated, now.nominated) {
		return false
	}
	return t.status != nil || s.samePDBViolations(t)
}

// samePDBViolations tells whether budgets still say the same of those who may have to leave.
func (s *dryRunSearch) samePDBViolations(t *dryRunResult) bool {
	var before pdbState
	if t.pdbState != nil {
		before = *t.pdbState
	} else if len(s.budgets) == 0 {
		return true
	}
	if t.pdbState != nil && before.pdbGeneration == s.in.SearchCache.pdbGeneration {
		return true
	}
	breaking := markPDBViolations(t.potentialVictims, s.budgets, make([]bool, len(t.potentialVictims)))
	if !slices.Equal(breaking, before.violating) {
		return false
	}
	t.pdbState = &pdbState{breaking, s.in.SearchCache.pdbGeneration}
	return true
}
