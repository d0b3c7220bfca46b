package schedule

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// Result is the outcome of asking about one Pod.
type Result struct {
	Pod                  *v1.Pod
	State                framework.CycleState // the plugins' entries, for the points after
	EvaluatedNodes       int                  // nodes evaluated
	SuggestedHost        string               // empty when no node was chosen
	RunnerUp             string
	Lead                 int64             // points ahead of it
	TopScoredNodes       int               // nodes that shared the top score
	Status               *framework.Status // why there is no winner: a rejection, or an error; nil with a winner
	UnschedulablePlugins sets.Set[string]  // plugins that said no; their events wake the Pod; nil when none did
	PendingPlugins       sets.Set[string]  // plugins that said "not yet"; nil when none did
	PostFilterMsg        string            // what the PostFilter plugins said; set by who ran them

	preFilterMsg string
	absent       *framework.Status // said of nodes that were not evaluated one by one
	diagnosis
}

// diagnosis is what a Result remembers to explain itself.
type diagnosis struct {
	ctx        context.Context
	snapshot   *snapshot.Snapshot
	plugins    *PluginSet
	refusals   []refusal
	feasible   []framework.NodeInfo
	scorers    []WeightedScorePlugin
	buffers    *Buffers             // nil when nothing was scored
	chosen     int                  // the winner's place in feasible; with groups its row
	visitOrder []framework.NodeInfo // in the order of looking; nil when that order does not matter
	visitStart int                  // place of the first that was looked at
	// set when refusals and scores are those of groups, and refusals and feasible are empty
	groups      *nodeGroups
	groupScores *groupScores
}

type refusal struct {
	node   framework.NodeInfo
	status *framework.Status
}

// setVisitOrder notes in which order nodes are looked at, from which on.
func (r *Result) setVisitOrder(nodes []framework.NodeInfo, from int) {
	r.visitOrder, r.visitStart = nodes, from
}

// Scheduled tells whether a node was chosen.
func (r *Result) Scheduled() bool { return r.SuggestedHost != "" }

// Scored tells whether nodes were compared.
func (r *Result) Scored() bool { return r.buffers != nil && r.Status == nil }

// Nodes is the number of nodes in the snapshot.
func (r *Result) Nodes() int { return r.snapshot.Len() }

// Feasible is the number of nodes that passed.
func (r *Result) Feasible() int {
	if r.groups != nil {
		return r.groupScores.feasible
	}
	return len(r.feasible)
}

// countRefused is the number of nodes that said no one by one.
func (r *Result) countRefused() int {
	if r.groups != nil {
		return r.groups.countRefused()
	}
	return len(r.refusals)
}

// countStatuses counts equal statuses.
func (r *Result) countStatuses() []statusCount {
	if r.groups != nil {
		return r.groups.countStatuses()
	}
	index := map[*framework.Status]int{}
	var out []statusCount
	for _, no := range r.refusals {
		i, known := index[no.status]
		if !known {
			i = len(out)
			index[no.status] = i
			out = append(out, statusCount{status: no.status})
		}
		out[i].nodes++
	}
	return out
}

type statusCount struct {
	status *framework.Status
	nodes  int
}

// Failed tells whether the cycle broke off by an error rather than a rejection.
func (r *Result) Failed() bool { return r.Status != nil && !r.Status.IsRejected() }

// addRefusal remembers a node's no; false when it is an error, which ends the cycle.
func (r *Result) addRefusal(n framework.NodeInfo, s *framework.Status) bool {
	if !s.IsRejected() {
		return false
	}
	if k := len(r.refusals); k == 0 || r.refusals[k-1].status.Plugin() != s.Plugin() ||
		r.refusals[k-1].status.Code() != s.Code() {
		r.rejectPod(s)
	}
	r.refusals = append(r.refusals, refusal{n, s})
	return true
}

// rejectPod remembers which plugin refused the Pod as a whole: as pending, or as unschedulable, for
// the queue's hints.
func (r *Result) rejectPod(s *framework.Status) {
	switch {
	case s.Plugin() == "":
	case s.Code() == framework.Pending:
		if r.PendingPlugins == nil {
			r.PendingPlugins = sets.Set[string]{}
		}
		r.PendingPlugins.Insert(s.Plugin())
	default:
		r.addUnschedulablePlugins(s.Plugin())
	}
}

func (r *Result) addUnschedulablePlugins(by ...string) {
	if r.UnschedulablePlugins == nil {
		r.UnschedulablePlugins = sets.Set[string]{}
	}
	r.UnschedulablePlugins.Insert(by...)
}

// NodeToStatus gives the refusals as PostFilter plugins want them. It may be read until the next
// cycle.
func (r *Result) NodeToStatus() framework.NodeToStatusReader {
	absent := r.absent
	if absent == nil {
		absent = framework.NewStatus(framework.UnschedulableAndUnresolvable)
	}
	if r.groups != nil {
		return &groupStatuses{r.groups, r.snapshot, absent}
	}
	if r.refusedInVisitOrder() {
		return &visitOrderStatuses{r.refusals, r.snapshot, r.visitStart, absent}
	}
	m := &NodeStatuses{Absent: absent, Statuses: make(map[string]*framework.Status, len(r.refusals)),
		NotRun: r.preFilterPluginsNotRun()}
	for _, n := range r.refusals {
		m.Statuses[n.node.Node().Name] = n.status
	}
	return m
}

// preFilterPluginsNotRun names the PreFilter plugins after the one that ended the cycle.
func (r *Result) preFilterPluginsNotRun() []string {
	if r.preFilterMsg == "" || r.absent.Code() != framework.UnschedulableAndUnresolvable || r.plugins == nil {
		return nil
	}
	var out []string
	found := false
	for _, p := range r.plugins.PreFilter {
		if found {
			out = append(out, p.Name())
		}
		found = found || p.Name() == r.absent.Plugin()
	}
	return out
}

// NodeStatuses is a framework.NodeToStatusReader over a map; Absent is said of nodes not in it.
type NodeStatuses struct {
	Statuses map[string]*framework.Status
	Absent   *framework.Status
	NotRun   []string // PreFilter plugins that had no word, because one before them ended the cycle
}

// Get returns the status of the node of that name, Absent where the map has none.
func (m *NodeStatuses) Get(node string) *framework.Status {
	if s, ok := m.Statuses[node]; ok {
		return s
	}
	return m.Absent
}

// NodesForStatusCode implements framework.NodeToStatusReader for preemption: the nodes of lister
// whose status has the code, in lister's order. It fails only where lister does.
func (m *NodeStatuses) NodesForStatusCode(lister framework.NodeInfoLister,
	code framework.Code) ([]framework.NodeInfo, error) {
	return nodesForStatusCode(m, lister, code)
}

// refusedInVisitOrder tells whether the refusals are those of all nodes in the order of looking. A
// refusal by Extenders comes after those of the plugins.
func (r *Result) refusedInVisitOrder() bool {
	n := len(r.refusals)
	if n == 0 || n != r.snapshot.Len() || n != len(r.visitOrder) {
		return false
	}
	for i := range r.refusals {
		if r.refusals[i].node != r.visitOrder[(r.visitStart+i)%n] {
			return false
		}
	}
	return true
}

// visitOrderStatuses reads the refusals of a cycle that every node refused, in the order of
// looking.
type visitOrderStatuses struct {
	refusals []refusal
	index    interface{ Index(string) (int, bool) }
	from     int // row of the first
	absent   *framework.Status
}

// Get returns the status of the node of that name; the absent nodes' status where the snapshot has
// none of that name.
func (s *visitOrderStatuses) Get(node string) *framework.Status {
	if row, ok := s.index.Index(node); ok {
		return s.Row(row)
	}
	return s.absent
}

// Row is Get by the node's index in the snapshot's list, which must be one of it.
func (s *visitOrderStatuses) Row(row int) *framework.Status {
	return s.refusals[(row-s.from+len(s.refusals))%len(s.refusals)].status
}

// NodesForStatusCode implements framework.NodeToStatusReader for preemption: the nodes of lister
// whose status has the code, in lister's order. It fails only where lister does.
func (s *visitOrderStatuses) NodesForStatusCode(lister framework.NodeInfoLister,
	code framework.Code) ([]framework.NodeInfo, error) {
	return nodesForStatusCode(s, lister, code)
}

// nodesForStatusCode lists the nodes of lister whose status in m has the code.
func nodesForStatusCode(m interface {
	Get(string) *framework.Status
}, lister framework.NodeInfoLister, code framework.Code) ([]framework.NodeInfo, error) {
	all, err := lister.List()
	if err != nil {
		return nil, err
	}
	var out []framework.NodeInfo
	for _, n := range all {
		if m.Get(n.Node().Name).Code() == code {
			out = append(out, n)
		}
	}
	return out, nil
}
