package whatif

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	framework "k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod/fit"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// In is the input of FindRemedies.
type In struct {
	Pod         *v1.Pod
	Snapshot    *snapshot.Snapshot
	Plugins     *schedule.PluginSet
	Owner       Owner               // what to edit instead of the Pod; zero: the Pod itself
	Classes     map[string]Priority // PriorityClasses by name, as far as known
	MaxRemedies int                 // number of remedies wanted; 0: 3
	// WithoutPods returns the plugins with the given Pods deleted and their devices free; nil:
	// Plugins are used.
	WithoutPods func(deletedPods map[types.UID]bool) *schedule.PluginSet
	MaxAttempts int // bound of scheduling attempts; 0: 400
	// Together are further Pods of the same template that wait for a node too: a remedy says for
	// how many of them all it is enough.
	Together []*v1.Pod
}

// Priority is a PriorityClass.
type Priority struct {
	Value int32
	Never bool // preemptionPolicy: Never
}

// Remedy is a set of changes with which the plugins chose a node.
type Remedy struct {
	Description string   `json:"say"`
	Run         []string `json:"run,omitempty"` // shell commands, in order
	Node        string   `json:"node"`          // the chosen node
	// of its first change: request, toleration, cordon, pod, label, rule, node, …
	Kind string `json:"kind"`
	// the labels, as key=value, that it takes out of the Pod's nodeSelector
	NodeLabels []string `json:"-"`

	cost  float64
	state searchState // with which the Pod was placed
}

// change is one edit. The functions are nil if it does not concern the Pod or the cluster; both get
// copies that they may keep.
type change struct {
	kind        string
	description string
	nodeLabel   string   // key=value that it takes out of the Pod's nodeSelector
	run         []string // empty: derived from the edit of the Pod at the end
	cost        float64  // among remedies of as many changes the lowest wins
	pod         func(*v1.Pod)
	snapshot    func(*snapshot.Snapshot) (*snapshot.Snapshot, error)
	deletedPods []types.UID // Pods that it deletes
	pods        []*v1.Pod   // the same
}

// searchState is the Pod and the cluster after some changes.
type searchState struct {
	pod      *v1.Pod
	snapshot *snapshot.Snapshot
	changes  []change
}

const (
	defaultMaxRemedies = 3
	defaultMaxAttempts = 400
	maxChanges         = 3  // changes in one remedy
	maxTargetNodes     = 12 // nodes for which remedies are tried
	maxPerKind         = 2  // remedies of the same kind
)

// search is one call of FindRemedies.
type search struct {
	in       In
	ctx      context.Context
	attempts int
	found    []Remedy
	emitted  map[string]bool
}

// FindRemedies returns the smallest changes with which the Pod can be scheduled, and each node's
// current refusal; neither if it fits. It stops when ctx ends or MaxAttempts is reached, and
// returns what it has found.
func FindRemedies(ctx context.Context, in In) ([]Remedy, []journal.NodeRefusal) {
	if in.MaxRemedies == 0 {
		in.MaxRemedies = defaultMaxRemedies
	}
	if in.MaxAttempts == 0 {
		in.MaxAttempts = defaultMaxAttempts
	}
	s := &search{in: in, ctx: ctx, emitted: map[string]bool{}}
	begin := searchState{pod: in.Pod, snapshot: in.Snapshot}
	first := s.schedule(begin)
	if first == nil || first.Scheduled() {
		return nil, nil
	}
	refusals := first.Refusals(first.Nodes())
	if len(refusals) == 0 && first.UnschedulablePlugins.Has("NodeAffinity") {
		refusals = refusalsNotNamed(in)
	}
	for _, node := range nearestNodes(refusals, maxTargetNodes) {
		s.repair(begin, refusals, node)
	}
	s.addNode(begin, refusals)
	return s.describeForGroup(s.best()), refusals
}

func (s *search) schedule(st searchState) *schedule.Result {
	if s.attempts >= s.in.MaxAttempts || s.ctx.Err() != nil {
		return nil
	}
	s.attempts++
	plugins := s.in.Plugins
	if deletedPods := st.deletedPods(); len(deletedPods) > 0 && s.in.WithoutPods != nil {
		plugins = s.in.WithoutPods(deletedPods)
	}
	return schedule.SchedulePod(s.ctx, schedule.Input{Pod: st.pod, Snapshot: st.snapshot, Plugins: plugins})
}

// repair tries to make one node fit: it lifts the node's refusal in every known way, and continues
// with the next refusal.
func (s *search) repair(st searchState, refusals []journal.NodeRefusal, node string) {
	i := slices.IndexFunc(refusals, func(r journal.NodeRefusal) bool { return r.Node == node })
	if i < 0 {
		return
	}
	was := refusals[i]
	for _, c := range changes(st, was) {
		if s.movesOnly(c) {
			continue
		}
		next, err := apply(st, c)
		if err != nil {
			continue
		}
		r := s.schedule(next)
		switch {
		case r == nil:
			return
		case r.Scheduled() && s.minimal(next):
			s.record(next, r.SuggestedHost)
		case r.Scheduled():
		case len(next.changes) < maxChanges:
			after := r.Refusals(r.Nodes())
			if j := slices.IndexFunc(after, func(n journal.NodeRefusal) bool { return n.Node == node }); j >= 0 &&
				!same(after[j], was) {
				s.repair(next, after, node)
			}
		}
	}
}

// minimal reports whether no change of several can be left out: without any of them the Pod still
// finds no node.
func (s *search) minimal(st searchState) bool {
	for i := range st.changes {
		if len(st.changes) == 1 {
			return true
		}
		less := searchState{pod: s.in.Pod, snapshot: s.in.Snapshot}
		ok := true
		for j, c := range st.changes {
			if j == i || !ok {
				continue
			}
			next, err := apply(less, c)
			less, ok = next, err == nil
		}
		if !ok {
			continue
		}
		if r := s.schedule(less); r != nil && r.Scheduled() {
			return false
		}
	}
	return true
}

// deletedPods returns the Pods that the changes delete.
func (st searchState) deletedPods() map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, c := range st.changes {
		for _, uid := range c.deletedPods {
			out[uid] = true
		}
	}
	return out
}

func same(a, b journal.NodeRefusal) bool {
	return a.Plugin == b.Plugin && slices.Equal(a.Messages, b.Messages) && slices.Equal(a.Shortages, b.Shortages) &&
		a.Detail == b.Detail
}

func apply(st searchState, c change) (searchState, error) {
	next := searchState{pod: st.pod, snapshot: st.snapshot, changes: append(slices.Clip(st.changes), c)}
	if c.pod != nil {
		next.pod = st.pod.DeepCopy()
		c.pod(next.pod)
	}
	if c.snapshot != nil {
		w, err := c.snapshot(st.snapshot)
		if err != nil {
			return st, err
		}
		next.snapshot = w
	}
	return next, nil
}

func (s *search) record(st searchState, winner string) {
	r := Remedy{Node: winner, Kind: st.changes[0].kind, cost: 10 * float64(len(st.changes)), state: st}
	var says []string
	edited := false
	for _, c := range st.changes {
		says = append(says, c.description+s.deletionCost(c))
		r.Run = append(r.Run, c.run...)
		r.cost += c.cost
		if c.nodeLabel != "" {
			r.NodeLabels = append(r.NodeLabels, c.nodeLabel)
		}
		edited = edited || c.pod != nil
	}
	if edited {
		r.Run = append(r.Run, podCommands(s.in.Owner, s.in.Pod, st.pod)...)
	}
	r.Description = fmt.Sprintf("%s: the Pod then goes to %s", strings.Join(says, ", and "), winner)
	if winner == newNode {
		r.Description = strings.Join(says, ", and ") + ": the Pod then goes there"
	}
	if edited && s.in.Owner.Kind == "job" {
		r.Description += " (the Job is made anew, and does again what it has done)"
	}
	if s.emitted[r.Description] {
		return
	}
	s.emitted[r.Description] = true
	s.found = append(s.found, r)
}

// best returns the cheapest remedies, at most maxPerKind of each kind.
func (s *search) best() []Remedy {
	slices.SortStableFunc(s.found, func(a, b Remedy) int {
		return cmp.Or(cmp.Compare(s.elsewhere(a), s.elsewhere(b)), cmp.Compare(a.cost, b.cost))
	})
	var out []Remedy
	kinds := map[string]int{}
	for _, r := range s.found {
		if len(out) < s.in.MaxRemedies && kinds[r.Kind] < maxPerKind && !(len(out) > 0 && r.aside(out[0])) {
			kinds[r.Kind]++
			out = append(out, r)
		}
	}
	return out
}

// elsewhere is 1 for a remedy by which the Pod goes to a node that it did not choose, where there
// are nodes that it does choose: one of those is what was meant.
func (s *search) elsewhere(r Remedy) int {
	chooses := func(info framework.NodeInfo) bool {
		if info == nil || info.Node() == nil {
			return r.Node == newNode
		}
		ok, err := fit.NodeMatches(s.in.Pod, info.Node())
		return err == nil && ok
	}
	if chooses(s.in.Snapshot.Node(r.Node)) || !slices.ContainsFunc(s.in.Snapshot.All(), chooses) {
		return 0
	}
	return 1
}

// aside reports whether a remedy changes another node than the best one goes to, where that one
// needs no change of a node: what that node is for is somebody else's matter.
func (r Remedy) aside(best Remedy) bool {
	ofNode := func(kind string) bool { return kind == "taint" || kind == "label" || kind == "cordon" }
	return ofNode(r.Kind) && !ofNode(best.Kind) && r.Node != best.Node
}

// nearestNodes returns nodes to find remedies for: those with the smallest shortfall, and the first
// of each other refusal.
func nearestNodes(refusals []journal.NodeRefusal, n int) []string {
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

// Distance ranks how far a node is from fitting: the sum of relative shortfalls; other refusals
// count more.
func Distance(r journal.NodeRefusal) float64 {
	if len(r.Shortages) == 0 {
		return 100
	}
	var d float64
	for _, x := range r.Shortages {
		switch {
		case x.Available == 0:
			d += 50
		case x.Requested > 0:
			d += float64(x.Requested-(x.Available-x.Used)) / float64(x.Requested)
		}
	}
	return d
}
