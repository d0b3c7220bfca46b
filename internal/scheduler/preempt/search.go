package preempt

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
	"github.com/gantry-project/gantry/internal/scheduler/place"
)

// Upstream's texts.
const (
	NotHelpful = "Preemption is not helpful for scheduling"
	NoVictims  = "No preemption victims found for incoming pod"
	Never      = "not eligible due to preemptionPolicy=Never."
	AlreadyOn  = "not eligible due to a terminating pod on the nominated node."
)

// In is what a search is made from.
type In struct {
	place.In                              // Pod, World, Judges, State after PreFilter, Nominated and Promised, Each; Pick chooses the node to look from
	Refused  framework.NodeToStatusReader // what the ruling said of each node
	Budgets  []*policy.PodDisruptionBudget
	Percent  int32   // of the nodes where preemption may help: enough candidates
	Absolute int32   // at least so many
	Tried    *Memory // what came of earlier searches; nil: every node is tried anew

	// Review is asked which candidates are left, and with which victims; nil: all are.
	Review func(victims map[string]*extenderv1.Victims) (map[string]*extenderv1.Victims, error)
}

// Choice is the outcome: a node and who must leave it, or a message why not.
type Choice struct {
	Node       string
	Victims    []*v1.Pod
	Broken     int    // victims whose leaving a budget does not allow
	Candidates int    // nodes that were compared
	Message    string // when there is no node
}

// Eligible tells whether the Pod may make others leave, and why not. A Pod whose earlier victims are still leaving its nominated node waits for them.
func Eligible(in In) (string, bool) {
	p := in.Pod
	if p.Spec.PreemptionPolicy != nil && *p.Spec.PreemptionPolicy == v1.PreemptNever {
		return Never, false
	}
	name := p.Status.NominatedNodeName
	n := in.World.Node(name)
	if name == "" || n == nil || in.Refused.Get(name).Code() == framework.UnschedulableAndUnresolvable {
		return "", true
	}
	for _, other := range n.GetPods() {
		o := other.GetPod()
		if pod.Priority(o) < pod.Priority(p) && o.DeletionTimestamp != nil && disrupted(o) {
			return AlreadyOn, false
		}
	}
	return "", true
}

func disrupted(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonPreemptionByScheduler
	})
}

// Search finds the node where the least harm is done.
func Search(ctx context.Context, in In) (Choice, error) {
	budgets, err := readBudgets(in.Budgets)
	if err != nil {
		return Choice{}, err
	}
	tries, candidates := dryRun(ctx, &in, budgets)
	for _, t := range tries {
		if t.status.IsError() {
			return Choice{}, t.status.AsError()
		}
	}
	if len(candidates) == 0 {
		return Choice{Message: message(in, tries)}, nil
	}
	best := slices.MinFunc(candidates, least)
	if in.Review == nil {
		return Choice{Node: best.node.Node().Name, Victims: best.victims(), Broken: best.broken, Candidates: len(candidates)}, nil
	}
	left, err := review(in, candidates)
	if err != nil {
		return Choice{}, err
	}
	if len(left) == 0 {
		return Choice{Message: message(in, tries)}, nil
	}
	chosen := slices.MinFunc(left, func(a, b *reviewed) int { return least(&a.try, &b.try) })
	return Choice{Node: chosen.node.Node().Name, Victims: chosen.victims, Broken: chosen.broken, Candidates: len(left)}, nil
}

// Differences says in which points two choices for one Pod differ; none when they are equal.
func Differences(a, b Choice) []string {
	var out []string
	differ := func(what string, x, y any) {
		if x, y := fmt.Sprint(x), fmt.Sprint(y); x != y {
			out = append(out, fmt.Sprintf("%s: %s, other %s", what, x, y))
		}
	}
	differ("node", a.Node, b.Node)
	differ("victims", names(a.Victims), names(b.Victims))
	differ("budgets broken", a.Broken, b.Broken)
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

// reviewed is a candidate with the victims that are left after a review.
type reviewed struct {
	try
	victims []*v1.Pod
}

// review has Review look at the candidates.
func review(in In, candidates []*try) ([]*reviewed, error) {
	asked := map[string]*extenderv1.Victims{}
	for _, t := range candidates {
		asked[t.node.Node().Name] = &extenderv1.Victims{Pods: t.victims(), NumPDBViolations: int64(t.broken)}
	}
	left, err := in.Review(asked)
	if err != nil {
		return nil, err
	}
	var out []*reviewed
	for _, t := range candidates {
		if v := left[t.node.Node().Name]; v != nil {
			r := reviewed{try{basis: t.basis, broken: int(v.NumPDBViolations), weight: unharmed()}, slices.Clone(v.Pods)}
			slices.SortStableFunc(r.victims, importance)
			for _, p := range r.victims {
				r.add(harmOf(p))
			}
			out = append(out, &r)
		}
	}
	return out, nil
}

// message counts why preemption helps nowhere.
func message(in In, tries []*try) string {
	statuses := make([]*framework.Status, len(tries))
	for i, t := range tries {
		statuses[i] = t.status
	}
	counted := place.CountReasons(statuses, framework.NewStatus(framework.UnschedulableAndUnresolvable, NotHelpful), in.World.Len()-len(tries))
	text := fmt.Sprintf("0/%d nodes are available:", in.World.Len())
	if len(counted) > 0 {
		text += " " + strings.Join(counted, ", ") + "."
	}
	return text
}
