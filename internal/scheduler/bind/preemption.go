package bind

import (
	"context"
	"fmt"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	policylisters "k8s.io/client-go/listers/policy/v1"
	config "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/glue"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/preempt"
)

// preemption makes Pods of lower priority leave for one that fits nowhere.
type preemption struct {
	handle  *glue.Handle
	quick   Quick
	args    *config.DefaultPreemptionArgs
	budgets policylisters.PodDisruptionBudgetLister
	under   underWay
	tried   preempt.Memory
}

var (
	_ framework.PostFilterPlugin  = (*preemption)(nil)
	_ framework.PreEnqueuePlugin  = (*preemption)(nil)
	_ framework.EnqueueExtensions = (*preemption)(nil)
	_ glue.Keeper                 = (*preemption)(nil)
)

func newPreemption(q Quick) plugins.Factory {
	return func(_ context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
		own, ok := args.(*config.DefaultPreemptionArgs)
		if !ok {
			return nil, fmt.Errorf("arguments are of type %T, want %T", args, own)
		}
		handle, ok := h.(*glue.Handle)
		if !ok {
			return nil, fmt.Errorf("the handle is a %T: this plugin runs in this scheduler only", h)
		}
		return &preemption{handle: handle, quick: q, args: own, budgets: h.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister()}, nil
	}
}

// Name is DefaultPreemption.
func (*preemption) Name() string { return plugins.DefaultPreemption }

// PreEnqueue keeps a Pod out of the queue while its victims are being made to leave: it could only fail again.
func (p *preemption) PreEnqueue(_ context.Context, pod *v1.Pod) *framework.Status {
	if p.under.holds(pod.UID, p.handle.Standing) {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, "waiting for the preemption for this pod to be finished")
	}
	return nil
}

// EventsToRegister opens the gate of PreEnqueue when the last victim goes. Of refusals the filters know themselves when victims are gone.
func (*preemption) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{{Event: framework.ClusterEvent{Resource: framework.AssignedPod, ActionType: framework.Delete}}}, nil
}

// Concerned names the Pods whose last victim went, so that not every deletion has all gates asked.
func (p *preemption) Concerned(before, _ any) []types.UID {
	gone, ok := before.(*v1.Pod)
	if !ok {
		return nil
	}
	return p.under.over(gone.UID, p.handle.Standing)
}

// PostFilter searches and, when it finds a node, nominates it and makes its victims leave beside the next cycles.
func (p *preemption) PostFilter(ctx context.Context, state framework.CycleState, preemptor *v1.Pod, refused framework.NodeToStatusReader) (_ *framework.PostFilterResult, status *framework.Status) {
	var hunt glue.Hunt
	status = brokeOff
	defer p.searched(time.Now(), &hunt, &status)
	budgets, err := p.budgets.List(labels.Everything())
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	in := preempt.In{In: p.handle.In(preemptor, state), Refused: refused, Budgets: budgets, Percent: *p.args.MinCandidateNodesPercentage, Absolute: *p.args.MinCandidateNodesAbsolute}
	if all := p.handle.ExtendersFor(preemptor); len(all) > 0 {
		in.Review = func(v map[string]*extenderv1.Victims) (map[string]*extenderv1.Victims, error) {
			return all.Review(preemptor, v, in.World)
		}
	}
	if why, ok := preempt.Eligible(in); !ok {
		return nil, framework.NewStatus(framework.Unschedulable, "preemption: "+why)
	}
	choice, err := p.search(ctx, in)
	switch {
	case err != nil:
		return nil, framework.AsStatus(fmt.Errorf("preemption: %w", err))
	case choice.Node == "":
		return nominate(""), framework.NewStatus(framework.Unschedulable, "preemption: "+choice.Message)
	}
	hunt.Victims, hunt.Units, hunt.Broken = len(choice.Victims), len(choice.Victims), choice.Broken
	job := eviction{preemptor: preemptor, node: choice.Node, victims: choice.Victims, stories: preempt.Stories(ctx, in, choice)}
	if told := p.handle.Told().Preempting; told != nil {
		told(preemptor, choice.Node, choice.Victims)
	}
	job.lower = preempt.Lower(preemptor, p.handle.NominatedPodsForNode(choice.Node))
	for _, o := range job.lower {
		p.handle.DeleteNominatedPodIfExists(o)
	}
	p.under.begin(preemptor.UID, time.Now())
	p.handle.Go(func() { p.carryOut(ctx, job) })
	return nominate(choice.Node), framework.NewStatus(framework.Success, fmt.Sprintf("preemption: found a potential placement for pod on node %s, preempting %d victims", choice.Node, len(choice.Victims)))
}

// brokeOff is how a search ends that never says how: it panicked, and whoever asked for it catches that.
var brokeOff = framework.NewStatus(framework.Error, "the search for victims broke off")

// searched tells how a search ended.
func (p *preemption) searched(began time.Time, h *glue.Hunt, status **framework.Status) {
	if told := p.handle.Told().Searched; told != nil {
		h.Took, h.Code = time.Since(began), (*status).Code()
		told(*h)
	}
}

// search looks for victims from memory; when the scheduler doubts that, also without, and then the plain choice counts.
func (p *preemption) search(ctx context.Context, in preempt.In) (preempt.Choice, error) {
	in.Tried = &p.tried
	doubted := p.handle.Told().Doubted
	if doubted == nil {
		return preempt.Search(ctx, in)
	}
	if pick := in.Pick; pick != nil { // both look from the same node on
		at := pick(math.MaxInt32)
		in.Pick = func(n int) int { return at % n }
	}
	quick, err := preempt.Search(ctx, in)
	if err != nil {
		return quick, err
	}
	in.Tried = nil
	plain, err := preempt.Search(ctx, in)
	if err == nil {
		doubted(ctx, in.Pod, preempt.Differences(quick, plain))
	}
	return plain, err
}

func nominate(node string) *framework.PostFilterResult {
	return &framework.PostFilterResult{NominatingInfo: &framework.NominatingInfo{NominatedNodeName: node, NominatingMode: framework.ModeOverride}}
}
