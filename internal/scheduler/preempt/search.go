package preempt

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	place.In                              // Pod, World, Judges, State after PreFilter, Nominated, Each
	Refused  framework.NodeToStatusReader // what the ruling said of each node
	Budgets  []*policy.PodDisruptionBudget
	Percent  int32 // of all nodes: enough candidates
	Absolute int32 // at least so many
	StartsAt int   // node to look from

	// Review is asked which candidates are left, and with which victims; nil: all are.
	Review func(victims map[string]*extenderv1.Victims) (map[string]*extenderv1.Victims, error)
}

// Choice is the outcome: a node and who must leave it, or a message why not.
type Choice struct {
	Node       string
	Victims    []*v1.Pod
	Broken     int    // budgets that would be broken
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
	var potential []framework.NodeInfo
	for _, n := range in.World.All() {
		if in.Refused.Get(n.Node().Name).Code() == framework.Unschedulable {
			potential = append(potential, n)
		}
	}
	budgets, err := readBudgets(in.Budgets)
	if err != nil {
		return Choice{}, err
	}
	tries, candidates := dryRun(ctx, in, potential, budgets)
	for _, t := range tries {
		if t.status.IsError() {
			return Choice{}, t.status.AsError()
		}
	}
	if len(candidates) == 0 {
		return Choice{Message: message(in, tries)}, nil
	}
	if in.Review != nil {
		if candidates, err = review(in, candidates); err != nil {
			return Choice{}, err
		}
		if len(candidates) == 0 {
			return Choice{Message: message(in, tries)}, nil
		}
	}
	best := slices.MinFunc(candidates, compare)
	return Choice{Node: best.node, Victims: best.victims, Broken: best.broken, Candidates: len(candidates)}, nil
}

// review has Review look at the candidates.
func review(in In, candidates []try) ([]try, error) {
	asked := map[string]*extenderv1.Victims{}
	for _, t := range candidates {
		asked[t.node] = &extenderv1.Victims{Pods: t.victims, NumPDBViolations: int64(t.broken)}
	}
	left, err := in.Review(asked)
	if err != nil {
		return nil, err
	}
	var out []try
	for _, t := range candidates {
		if v := left[t.node]; v != nil {
			t.victims, t.broken = v.Pods, int(v.NumPDBViolations)
			slices.SortStableFunc(t.victims, importance)
			out = append(out, t)
		}
	}
	return out, nil
}

// message counts why preemption helps nowhere.
func message(in In, tries []try) string {
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

// try is what came of taking Pods away from one node.
type try struct {
	node    string
	victims []*v1.Pod // most important first
	broken  int
	status  *framework.Status // nil: a candidate
}

// dryRun tries the nodes from StartsAt on until there are enough candidates, at least one of which breaks no budget.
func dryRun(ctx context.Context, in In, potential []framework.NodeInfo, budgets []budget) (tries, candidates []try) {
	enough := min(max(in.World.Len()*int(in.Percent)/100, int(in.Absolute)), len(potential))
	harmless := false
	for from := 0; from < len(potential); {
		to := min(from+max(enough, 1), len(potential))
		round := make([]try, to-from)
		one := func(i int) {
			round[i] = attempt(ctx, in, potential[(in.StartsAt+from+i)%len(potential)], budgets)
		}
		if in.Each != nil {
			in.Each(len(round), one)
		} else {
			for i := range round {
				one(i)
			}
		}
		tries = append(tries, round...)
		for _, t := range round {
			if t.status == nil {
				candidates = append(candidates, t)
				harmless = harmless || t.broken == 0
			}
		}
		if from = to; len(candidates) >= enough && harmless {
			break
		}
	}
	return tries, candidates
}

// attempt takes all Pods of lower priority off a node and puts back as many as the Pod leaves room for.
func attempt(ctx context.Context, in In, n framework.NodeInfo, budgets []budget) try {
	t := try{node: n.Node().Name}
	in.State = in.State.Clone()
	rest := n.Snapshot()
	var lower []framework.PodInfo
	for _, other := range n.GetPods() {
		if pod.Priority(other.GetPod()) < pod.Priority(in.Pod) {
			lower = append(lower, other)
		}
	}
	if len(lower) == 0 {
		t.status = framework.NewStatus(framework.UnschedulableAndUnresolvable, NoVictims)
		return t
	}
	for _, other := range lower {
		if t.status = remove(ctx, in, other, rest); t.status != nil {
			return t
		}
	}
	if s := place.Admits(ctx, in.In, rest); !s.IsSuccess() {
		t.status = s
		return t
	}
	slices.SortFunc(lower, func(a, b framework.PodInfo) int { return importance(a.GetPod(), b.GetPod()) })
	breaking, harmless := split(lower, budgets)
	for i, other := range slices.Concat(breaking, harmless) {
		fits, s := putBack(ctx, in, other, rest)
		if s != nil {
			t.status = s
			return t
		}
		if fits {
			continue
		}
		if t.victims = append(t.victims, other.GetPod()); i < len(breaking) {
			t.broken++
		}
	}
	slices.SortStableFunc(t.victims, importance)
	return t
}

// putBack gives a Pod its place again unless the preemptor would not fit then.
func putBack(ctx context.Context, in In, other framework.PodInfo, n framework.NodeInfo) (bool, *framework.Status) {
	n.AddPodInfo(other)
	if s := extend(in, func(e framework.PreFilterExtensions) *framework.Status {
		return e.AddPod(ctx, in.State, in.Pod, other, n)
	}); s != nil {
		return false, s
	}
	if place.Admits(ctx, in.In, n).IsSuccess() {
		return true, nil
	}
	return false, remove(ctx, in, other, n)
}

func remove(ctx context.Context, in In, other framework.PodInfo, n framework.NodeInfo) *framework.Status {
	if err := n.RemovePod(logr.Discard(), other.GetPod()); err != nil {
		return framework.AsStatus(err)
	}
	return extend(in, func(e framework.PreFilterExtensions) *framework.Status {
		return e.RemovePod(ctx, in.State, in.Pod, other, n)
	})
}

func extend(in In, do func(framework.PreFilterExtensions) *framework.Status) *framework.Status {
	for _, pl := range in.Judges.PreFilter {
		if ext := pl.PreFilterExtensions(); ext != nil && !in.State.GetSkipFilterPlugins().Has(pl.Name()) {
			if s := do(ext); !s.IsSuccess() {
				return framework.AsStatus(fmt.Errorf("PreFilter extension of plugin %q: %w", pl.Name(), s.AsError()))
			}
		}
	}
	return nil
}

// importance orders Pods: higher priority first, then who started first.
func importance(a, b *v1.Pod) int {
	if c := cmp.Compare(pod.Priority(b), pod.Priority(a)); c != 0 {
		return c
	}
	if c := started(a).Compare(started(b).Time); c != 0 {
		return c
	}
	return cmp.Compare(a.UID, b.UID)
}

// started is when a Pod began to run; one that has not counts as starting last.
func started(p *v1.Pod) metav1.Time {
	if p.Status.StartTime != nil {
		return *p.Status.StartTime
	}
	return metav1.Unix(1<<60, 0)
}

// compare orders candidates: the least harm first.
func compare(a, b try) int {
	return cmp.Or(
		cmp.Compare(a.broken, b.broken),
		cmp.Compare(highest(a), highest(b)),
		cmp.Compare(sum(a), sum(b)),
		cmp.Compare(len(a.victims), len(b.victims)),
		earliest(b).Compare(earliest(a).Time),
	)
}

func highest(t try) int32 {
	if len(t.victims) == 0 {
		return -1 << 31
	}
	return pod.Priority(t.victims[0])
}

// sum adds priorities, each lifted above zero so that more victims always weigh more.
func sum(t try) int64 {
	var n int64
	for _, v := range t.victims {
		n += int64(pod.Priority(v)) + 1<<31
	}
	return n
}

// earliest is the earliest start among the victims of the highest priority; the later, the less was lost.
func earliest(t try) metav1.Time {
	out := metav1.Unix(1<<60, 0)
	for _, v := range t.victims {
		if s := started(v); pod.Priority(v) == highest(t) && s.Before(&out) {
			out = s
		}
	}
	return out
}
