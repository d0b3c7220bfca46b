package preempt

import (
	"cmp"
	"slices"

	policy "k8s.io/api/policy/v1"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/place"
)

const (
	// triesKept bounds the tries of all shapes together; one takes some hundred bytes.
	triesKept = 1 << 17
	// fewestShapes are kept however large the cluster is.
	fewestShapes = 2
)

// Memory keeps, from search to search, what came of taking Pods away, by shape of the Pod they would leave for, so that only nodes that changed are tried again:
// in their Pods, in who is promised them, or in what budgets say of those who would leave. The choices are the same as without it. It belongs to one goroutine.
type Memory struct {
	judges  *place.Judges
	layout  int64
	shapes  map[string]*known
	turn    int64
	key     []byte
	budgets []*policy.PodDisruptionBudget // as of the last search, in order of name
	edition int64                         // grows when they change
	counts  Counts
	rooms   rooms
	who     place.Awaited
	rows    []int32 // scratch
}

// Counts tell how a Memory was used since it was made.
type Counts struct {
	Held int64 // tries that still held
	Made int64 // tries made for shapes that are kept
}

// Counts tells how the memory was used.
func (m *Memory) Counts() Counts { return m.counts }

// scratch is room for n rows, until it is asked for again.
func (m *Memory) scratch(n int) []int32 {
	if m == nil {
		return make([]int32, 0, n)
	}
	m.rows = slices.Grow(m.rows[:0], n)
	return m.rows
}

// follows tells whether the memory is about nodes as they are listed in this snapshot.
func (m *Memory) follows(in *In) bool { return m != nil && in.World.Layout() != 0 }

// known are the tries for one shape.
type known struct {
	used  int64
	tries []*try // by row; nil: not tried yet
}

// recall gives what is known for the Pod's shape; nil when its searches cannot be shared.
func (m *Memory) recall(in *In) *known {
	if !m.follows(in) {
		return nil
	}
	key, ok := shape(m.key[:0], in)
	if m.key = key; !ok {
		return nil
	}
	if m.judges != in.Judges || m.layout != in.World.Layout() { // nodes came or went: rows mean other nodes now
		m.judges, m.layout, m.shapes = in.Judges, in.World.Layout(), map[string]*known{}
		m.rooms = rooms{of: make([]room, in.World.Len())}
	}
	m.read(in.Budgets)
	m.turn++
	k := m.shapes[string(key)]
	if k == nil {
		m.forget(in.World.Len())
		k = &known{tries: make([]*try, in.World.Len())}
		m.shapes[string(key)] = k
	}
	k.used = m.turn
	return k
}

// shape is what the filters that are asked read of the Pod, and its priority; false when one of them reads more than that and the node.
func shape(to []byte, in *In) ([]byte, bool) {
	skip := in.State.GetSkipFilterPlugins()
	for _, p := range in.Judges.PreFilter {
		if p.PreFilterExtensions() != nil && !skip.Has(p.Name()) {
			return to, false
		}
	}
	to = place.AppendInt(to, int64(pod.Priority(in.Pod)))
	for i, f := range in.Judges.Filter {
		if skip.Has(f.Name()) {
			continue
		}
		l, ok := f.(place.Local)
		if !ok {
			return to, false
		}
		if to, ok = l.Shape(place.AppendInt(to, int64(i)), in.Pod); !ok {
			return to, false
		}
	}
	return to, true
}

// read notes whether the budgets are still the same.
func (m *Memory) read(budgets []*policy.PodDisruptionBudget) {
	if len(budgets) == 0 && len(m.budgets) == 0 {
		return
	}
	now := slices.SortedFunc(slices.Values(budgets), func(a, b *policy.PodDisruptionBudget) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if !slices.Equal(now, m.budgets) {
		m.budgets = now
		m.edition++
	}
}

// forget drops the shape not used for longest when there are enough.
func (m *Memory) forget(rows int) {
	if len(m.shapes) < max(triesKept/rows, fewestShapes) {
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

// holds tells whether a try would come out the same by now.
func (s *search) holds(t *try, now *basis) bool {
	if t.node != now.node || !slices.Equal(t.rivals, now.rivals) {
		return false
	}
	return t.status != nil || s.toldTheSame(t)
}

// toldTheSame tells whether budgets still say the same of those who may have to leave.
func (s *search) toldTheSame(t *try) bool {
	var before told
	if t.told != nil {
		before = *t.told
	} else if len(s.budgets) == 0 {
		return true
	}
	if t.told != nil && before.edition == s.Tried.edition {
		return true
	}
	breaking := marked(t.lower, s.budgets, make([]bool, len(t.lower)))
	if !slices.Equal(breaking, before.breaking) {
		return false
	}
	t.told = &told{breaking, s.Tried.edition}
	return true
}
