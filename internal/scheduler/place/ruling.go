package place

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// Ruling is the outcome of asking about one Pod.
type Ruling struct {
	Pod       *v1.Pod
	State     framework.CycleState // the judges' notes, for the points after
	Visited   int                  // nodes judged
	Winner    string               // empty when no node was chosen
	RunnerUp  string
	Lead      int64             // points ahead of it
	Ties      int               // nodes that shared the top score
	End       *framework.Status // why there is no winner: a rejection, or an error; nil with a winner
	Rejectors sets.Set[string]  // plugins that said no; their events wake the Pod; nil when none did
	Pending   sets.Set[string]  // plugins that said "not yet"; nil when none did
	PostMsg   string            // what the PostFilter plugins said; set by who ran them

	preFilterMsg string
	absent       *framework.Status // said of nodes that were not judged one by one
	outcome
}

// outcome is what a Ruling remembers to explain itself.
type outcome struct {
	ctx      context.Context
	world    *snapshot.Snapshot
	judges   *Judges
	no       []refusal
	feasible []framework.NodeInfo
	scorers  []Scorer
	boards   *Boards              // nil when nothing was scored
	at       int                  // the winner's place in feasible; with groups its row
	ring     []framework.NodeInfo // in the order of looking; nil when that order does not matter
	from     int                  // place of the first that was looked at
	groups   *partition           // set when refusals and scores are those of groups, and no and feasible are empty
}

type refusal struct {
	node   framework.NodeInfo
	status *framework.Status
}

// sampled notes in which order nodes are looked at, from which on.
func (r *Ruling) sampled(nodes []framework.NodeInfo, from int) {
	r.ring, r.from = nodes, from
}

// Fits tells whether a node was chosen.
func (r *Ruling) Fits() bool { return r.Winner != "" }

// Scored tells whether nodes were compared.
func (r *Ruling) Scored() bool { return r.boards != nil && r.End == nil }

// Nodes is the number of nodes in the snapshot.
func (r *Ruling) Nodes() int { return r.world.Len() }

// Feasible is the number of nodes that passed.
func (r *Ruling) Feasible() int {
	if r.groups != nil {
		return r.groups.feasible
	}
	return len(r.feasible)
}

// refused is the number of nodes that said no one by one.
func (r *Ruling) refused() int {
	if r.groups != nil {
		return r.groups.refused()
	}
	return len(r.no)
}

// tally counts equal statuses.
func (r *Ruling) tally() []tallied {
	if r.groups != nil {
		return r.groups.tally()
	}
	index := map[*framework.Status]int{}
	var out []tallied
	for _, no := range r.no {
		i, known := index[no.status]
		if !known {
			i = len(out)
			index[no.status] = i
			out = append(out, tallied{status: no.status})
		}
		out[i].nodes++
	}
	return out
}

type tallied struct {
	status *framework.Status
	nodes  int
}

// Failed tells whether the ruling broke off by an error rather than a rejection.
func (r *Ruling) Failed() bool { return r.End != nil && !r.End.IsRejected() }

// refuse remembers a node's no; false when it is an error, which ends the ruling.
func (r *Ruling) refuse(n framework.NodeInfo, s *framework.Status) bool {
	if !s.IsRejected() {
		return false
	}
	if k := len(r.no); k == 0 || r.no[k-1].status.Plugin() != s.Plugin() || r.no[k-1].status.Code() != s.Code() {
		r.reject(s)
	}
	r.no = append(r.no, refusal{n, s})
	return true
}

func (r *Ruling) reject(s *framework.Status) {
	switch {
	case s.Plugin() == "":
	case s.Code() == framework.Pending:
		if r.Pending == nil {
			r.Pending = sets.Set[string]{}
		}
		r.Pending.Insert(s.Plugin())
	default:
		r.rejected(s.Plugin())
	}
}

func (r *Ruling) rejected(by ...string) {
	if r.Rejectors == nil {
		r.Rejectors = sets.Set[string]{}
	}
	r.Rejectors.Insert(by...)
}

// Reader gives the refusals as PostFilter plugins want them. It may be read until the next ruling.
func (r *Ruling) Reader() framework.NodeToStatusReader {
	absent := r.absent
	if absent == nil {
		absent = framework.NewStatus(framework.UnschedulableAndUnresolvable)
	}
	if r.groups != nil {
		return &groupStatuses{r.groups, r.world, absent}
	}
	if r.allByTurn() {
		return &ringStatuses{r.no, r.world, r.from, absent}
	}
	m := &NodeStatuses{Absent: absent, By: make(map[string]*framework.Status, len(r.no)), Unasked: r.unasked()}
	for _, n := range r.no {
		m.By[n.node.Node().Name] = n.status
	}
	return m
}

// unasked names the PreFilter plugins after the one that ended the cycle.
func (r *Ruling) unasked() []string {
	if r.preFilterMsg == "" || r.absent.Code() != framework.UnschedulableAndUnresolvable || r.judges == nil {
		return nil
	}
	var out []string
	found := false
	for _, p := range r.judges.PreFilter {
		if found {
			out = append(out, p.Name())
		}
		found = found || p.Name() == r.absent.Plugin()
	}
	return out
}

// NodeStatuses is a framework.NodeToStatusReader over a map; Absent is said of nodes not in it.
type NodeStatuses struct {
	By      map[string]*framework.Status
	Absent  *framework.Status
	Unasked []string // PreFilter plugins that had no word, because one before them ended the cycle
}

// Get gives a node's status.
func (m *NodeStatuses) Get(node string) *framework.Status {
	if s, ok := m.By[node]; ok {
		return s
	}
	return m.Absent
}

// NodesForStatusCode lists the nodes with a status code.
func (m *NodeStatuses) NodesForStatusCode(lister framework.NodeInfoLister, code framework.Code) ([]framework.NodeInfo, error) {
	return nodesWith(m, lister, code)
}

// allByTurn tells whether the refusals are those of all nodes in the order of looking. A refusal by Second comes after those of the plugins.
func (r *Ruling) allByTurn() bool {
	n := len(r.no)
	if n == 0 || n != r.world.Len() || n != len(r.ring) {
		return false
	}
	for i := range r.no {
		if r.no[i].node != r.ring[(r.from+i)%n] {
			return false
		}
	}
	return true
}

// ringStatuses reads the refusals of a ruling that every node refused, in the order of looking.
type ringStatuses struct {
	no     []refusal
	index  interface{ Index(string) (int, bool) }
	from   int // row of the first
	absent *framework.Status
}

// Get gives a node's status.
func (s *ringStatuses) Get(node string) *framework.Status {
	if row, ok := s.index.Index(node); ok {
		return s.Row(row)
	}
	return s.absent
}

// Row gives the status of the node at a place in the snapshot's list.
func (s *ringStatuses) Row(row int) *framework.Status {
	return s.no[(row-s.from+len(s.no))%len(s.no)].status
}

// NodesForStatusCode lists the nodes with a status code.
func (s *ringStatuses) NodesForStatusCode(lister framework.NodeInfoLister, code framework.Code) ([]framework.NodeInfo, error) {
	return nodesWith(s, lister, code)
}

func nodesWith(m interface {
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
