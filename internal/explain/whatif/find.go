package whatif

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// In is what changes are looked for in.
type In struct {
	Pod     *v1.Pod
	World   *snapshot.Snapshot
	Judges  *place.Judges
	Owner   Owner               // what to edit instead of the Pod; zero: the Pod itself
	Classes map[string]Priority // priority classes by name, as far as known
	Most    int                 // remedies wanted; 0 means 6
	// Without gives the judges as they are when some Pods are gone and their devices are free; nil: as Judges.
	Without func(gone map[types.UID]bool) *place.Judges
	Tries   int // rulings allowed; 0 means 400
}

// Priority is what a class gives a Pod.
type Priority struct {
	Value int32
	Never bool // preemptionPolicy: Never
}

// Remedy is a set of changes after which the plugins chose a node.
type Remedy struct {
	Say  string   `json:"say"`
	Run  []string `json:"run,omitempty"` // shell commands, in order
	Node string   `json:"node"`          // where the Pod would go
	Kind string   `json:"kind"`          // of its first change: request, toleration, cordon, pod, label, rule, node, …

	cost float64
}

// change is one edit. pod and world are nil when it leaves them alone; both get copies they may keep.
type change struct {
	kind  string
	say   string
	run   []string // empty: the edit of the Pod, rendered in the end
	cost  float64  // among changes of the same number: lower is nearer
	pod   func(*v1.Pod)
	world func(*snapshot.Snapshot) (*snapshot.Snapshot, error)
	gone  []types.UID // Pods that it ends
}

// state is the cluster after some changes.
type state struct {
	pod   *v1.Pod
	world *snapshot.Snapshot
	done  []change
}

const (
	defaultMost  = 6
	defaultTries = 400
	deepest      = 3  // changes in one remedy
	targets      = 12 // nodes that are tried to be made to fit
	perKind      = 2  // remedies of the same kind
)

// search is one run.
type search struct {
	in    In
	ctx   context.Context
	tries int
	found []Remedy
	said  map[string]bool
}

// Find looks for the smallest changes that let the Pod be placed, and gives what each node says as things are; nothing of either when it fits.
// It stops when ctx ends or the rulings allowed are used up.
func Find(ctx context.Context, in In) ([]Remedy, []journal.NodeRefusal) {
	if in.Most == 0 {
		in.Most = defaultMost
	}
	if in.Tries == 0 {
		in.Tries = defaultTries
	}
	s := &search{in: in, ctx: ctx, said: map[string]bool{}}
	begin := state{pod: in.Pod, world: in.World}
	first := s.rule(begin)
	if first == nil || first.Fits() {
		return nil, nil
	}
	refusals := first.Refusals(first.Nodes())
	if len(refusals) == 0 && first.Rejectors.Has("NodeAffinity") {
		refusals = unnamed(in)
	}
	for _, node := range nearest(refusals, targets) {
		s.mend(begin, refusals, node)
	}
	s.addNode(begin, refusals)
	return s.best(), refusals
}

func (s *search) rule(st state) *place.Ruling {
	if s.tries >= s.in.Tries || s.ctx.Err() != nil {
		return nil
	}
	s.tries++
	judges := s.in.Judges
	if gone := st.gone(); len(gone) > 0 && s.in.Without != nil {
		judges = s.in.Without(gone)
	}
	return place.One(s.ctx, place.In{Pod: st.pod, World: st.world, Judges: judges})
}

// mend tries to make one node take the Pod: it lifts the node's refusal in every way it knows, and goes on with the next refusal.
func (s *search) mend(st state, refusals []journal.NodeRefusal, node string) {
	i := slices.IndexFunc(refusals, func(r journal.NodeRefusal) bool { return r.Node == node })
	if i < 0 {
		return
	}
	was := refusals[i]
	for _, c := range changes(st, was) {
		next, err := apply(st, c)
		if err != nil {
			continue
		}
		r := s.rule(next)
		switch {
		case r == nil:
			return
		case r.Fits():
			s.keep(next, r.Winner)
		case len(next.done) < deepest:
			after := r.Refusals(r.Nodes())
			if j := slices.IndexFunc(after, func(n journal.NodeRefusal) bool { return n.Node == node }); j >= 0 && !same(after[j], was) {
				s.mend(next, after, node)
			}
		}
	}
}

// gone are the Pods that the changes end.
func (st state) gone() map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, c := range st.done {
		for _, uid := range c.gone {
			out[uid] = true
		}
	}
	return out
}

func same(a, b journal.NodeRefusal) bool {
	return a.Plugin == b.Plugin && slices.Equal(a.Messages, b.Messages) && slices.Equal(a.Short, b.Short) && a.Detail == b.Detail
}

func apply(st state, c change) (state, error) {
	next := state{pod: st.pod, world: st.world, done: append(slices.Clip(st.done), c)}
	if c.pod != nil {
		next.pod = st.pod.DeepCopy()
		c.pod(next.pod)
	}
	if c.world != nil {
		w, err := c.world(st.world)
		if err != nil {
			return st, err
		}
		next.world = w
	}
	return next, nil
}

func (s *search) keep(st state, winner string) {
	r := Remedy{Node: winner, Kind: st.done[0].kind, cost: 10 * float64(len(st.done))}
	var says []string
	edited := false
	for _, c := range st.done {
		says = append(says, c.say)
		r.Run = append(r.Run, c.run...)
		r.cost += c.cost
		edited = edited || c.pod != nil
	}
	if edited {
		r.Run = append(r.Run, podCommands(s.in.Owner, s.in.Pod, st.pod)...)
	}
	r.Say = fmt.Sprintf("%s: the Pod then goes to %s", strings.Join(says, ", and "), winner)
	if winner == newNode {
		r.Say = strings.Join(says, ", and ") + ": the Pod then goes there"
	}
	if s.said[r.Say] {
		return
	}
	s.said[r.Say] = true
	s.found = append(s.found, r)
}

// best takes the cheapest remedies, a few of each kind.
func (s *search) best() []Remedy {
	slices.SortStableFunc(s.found, func(a, b Remedy) int { return cmp.Compare(a.cost, b.cost) })
	var out []Remedy
	kinds := map[string]int{}
	for _, r := range s.found {
		if len(out) < s.in.Most && kinds[r.Kind] < perKind {
			kinds[r.Kind]++
			out = append(out, r)
		}
	}
	return out
}

// nearest chooses nodes to work on: those that lack least, and the first of each other refusal.
func nearest(refusals []journal.NodeRefusal, n int) []string {
	order := slices.Clone(refusals)
	slices.SortStableFunc(order, func(a, b journal.NodeRefusal) int { return cmp.Compare(Distance(a), Distance(b)) })
	var out []string
	groups := map[string]int{}
	for _, r := range order {
		key := r.Plugin + strings.Join(r.Messages, "|")
		if groups[key]++; groups[key] <= max(n/3, 3) && len(out) < n {
			out = append(out, r.Node)
		}
	}
	return out
}

// Distance ranks how far a node is from taking the Pod: the relative shortfalls added up; a refusal that is not about amounts is farther.
func Distance(r journal.NodeRefusal) float64 {
	if len(r.Short) == 0 {
		return 100
	}
	var d float64
	for _, x := range r.Short {
		switch {
		case x.Available == 0:
			d += 50
		case x.Asked > 0:
			d += float64(x.Asked-(x.Available-x.Used)) / float64(x.Asked)
		}
	}
	return d
}
