package preemption

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// Upstream's texts.
const (
	NotHelpful         = "Preemption is not helpful for scheduling"
	NoVictims          = "No preemption victims found for incoming pod"
	NoCandidate        = "no candidate node for preemption" // an extender left none
	PolicyNever        = "not eligible due to preemptionPolicy=Never."
	TerminatingVictims = "not eligible due to a terminating pod on the nominated node."
)

// Input is what a search is made from.
type Input struct {
	// Pod, Snapshot, Plugins, State after PreFilter, NominatedPodsForNode and NominatedNodes,
	// Parallel; PickTie chooses the node to look from
	schedule.Input
	NodeToStatus framework.NodeToStatusReader // what the cycle said of each node
	Budgets      []*policy.PodDisruptionBudget
	Percent      int32        // of the nodes where preemption may help: enough candidates
	Absolute     int32        // at least so many
	SearchCache  *DryRunCache // what came of earlier searches; nil: every node is tried anew

	// ProcessExtenders is asked which candidates are left, and with which victims; nil: all are.
	ProcessExtenders func(victims map[string]*extenderv1.Victims) (map[string]*extenderv1.Victims, error)
}

// Candidate is the outcome: a node and who must leave it, or a message why not.
type Candidate struct {
	Node          string
	Victims       []*v1.Pod
	PDBViolations int    // victims whose leaving a budget does not allow
	Candidates    int    // nodes that were compared
	Message       string // when there is no node
}

// PodEligibleToPreemptOthers tells whether the Pod may make others leave, and why not. A Pod whose
// earlier victims are still leaving its nominated node waits for them.
func PodEligibleToPreemptOthers(in Input) (string, bool) {
	p := in.Pod
	if p.Spec.PreemptionPolicy != nil && *p.Spec.PreemptionPolicy == v1.PreemptNever {
		return PolicyNever, false
	}
	name := p.Status.NominatedNodeName
	n := in.Snapshot.Node(name)
	if name == "" || n == nil || in.NodeToStatus.Get(name).Code() == framework.UnschedulableAndUnresolvable {
		return "", true
	}
	for _, other := range n.GetPods() {
		o := other.GetPod()
		if pod.Priority(o) < pod.Priority(p) && o.DeletionTimestamp != nil && isTerminatingByPreemption(o) {
			return TerminatingVictims, false
		}
	}
	return "", true
}

func isTerminatingByPreemption(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue &&
			c.Reason == v1.PodReasonPreemptionByScheduler
	})
}

// Preempt finds the node where the victims cost least.
func Preempt(ctx context.Context, in Input) (Candidate, error) {
	budgets, err := compilePDBs(in.Budgets)
	if err != nil {
		return Candidate{}, err
	}
	results, candidates := dryRun(ctx, &in, budgets)
	for _, t := range results {
		if t.status.IsError() {
			return Candidate{}, t.status.AsError()
		}
	}
	if len(candidates) == 0 {
		return Candidate{Message: message(in, results)}, nil
	}
	best := slices.MinFunc(candidates, compareCandidates)
	if in.ProcessExtenders == nil {
		return Candidate{Node: best.node.Node().Name, Victims: best.victimPods(), PDBViolations: best.pdbViolations,
			Candidates: len(candidates)}, nil
	}
	left, err := callExtenders(in, candidates)
	if err != nil {
		return Candidate{}, err
	}
	if len(left) == 0 {
		return Candidate{Message: NoCandidate}, nil
	}
	chosen := slices.MinFunc(left,
		func(a, b *extenderCandidate) int { return compareCandidates(&a.dryRunResult, &b.dryRunResult) })
	return Candidate{Node: chosen.node.Node().Name, Victims: chosen.victims, PDBViolations: chosen.pdbViolations,
		Candidates: len(left)}, nil
}

// Differences says in which points two choices for one Pod differ; none when they are equal.
func Differences(a, b Candidate) []string {
	var out []string
	differ := func(what string, x, y any) {
		if x, y := fmt.Sprint(x), fmt.Sprint(y); x != y {
			out = append(out, fmt.Sprintf("%s: %s, other %s", what, x, y))
		}
	}
	differ("node", a.Node, b.Node)
	differ("victims", names(a.Victims), names(b.Victims))
	differ("budgets broken", a.PDBViolations, b.PDBViolations)
	differ("candidates", a.Candidates, b.Candidates)
	differ("message", a.Message, b.Message)
	return out
}

func names(pods []*v1.Pod) []string {
	out := make([]string, len(pods))
	for i, p := range pods {
		out[i] = pod.Key(p)
	}
	return out
}

// extenderCandidate is a candidate with the victims that are left after a review.
type extenderCandidate struct {
	dryRunResult
	victims []*v1.Pod
}

// callExtenders has ProcessExtenders review the candidates.
func callExtenders(in Input, candidates []*dryRunResult) ([]*extenderCandidate, error) {
	asked := map[string]*extenderv1.Victims{}
	for _, t := range candidates {
		asked[t.node.Node().Name] = &extenderv1.Victims{Pods: t.victimPods(), NumPDBViolations: int64(t.pdbViolations)}
	}
	left, err := in.ProcessExtenders(asked)
	if err != nil {
		return nil, err
	}
	var out []*extenderCandidate
	for _, t := range candidates {
		if v := left[t.node.Node().Name]; v != nil {
			r := extenderCandidate{dryRunResult{dryRunInputs: t.dryRunInputs, pdbViolations: int(v.NumPDBViolations),
				candidateCost: noVictimsCost()}, slices.Clone(v.Pods)}
			slices.SortStableFunc(r.victims, moreImportantPod)
			for _, p := range r.victims {
				r.add(victimCostOf(p))
			}
			out = append(out, &r)
		}
	}
	return out, nil
}

// message counts why preemption helps nowhere.
func message(in Input, results []*dryRunResult) string {
	statuses := make([]*framework.Status, len(results))
	for i, t := range results {
		statuses[i] = t.status
	}
	counted := schedule.CountReasons(statuses, framework.NewStatus(framework.UnschedulableAndUnresolvable, NotHelpful),
		in.Snapshot.Len()-len(results))
	text := fmt.Sprintf("0/%d nodes are available:", in.Snapshot.Len())
	if len(counted) > 0 {
		text += " " + strings.Join(counted, ", ") + "."
	}
	return text
}
