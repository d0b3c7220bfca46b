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

	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/preemption"
)

// defaultPreemption evicts Pods of lower priority for one that fits nowhere.
type defaultPreemption struct {
	handle           *frameworkruntime.Handle
	writer           APIWriter
	args             *config.DefaultPreemptionArgs
	budgets          policylisters.PodDisruptionBudgetLister
	pendingEvictions pendingEvictions
	dryRunCache      preemption.DryRunCache
}

var (
	_ framework.PostFilterPlugin       = (*defaultPreemption)(nil)
	_ framework.PreEnqueuePlugin       = (*defaultPreemption)(nil)
	_ framework.EnqueueExtensions      = (*defaultPreemption)(nil)
	_ frameworkruntime.PreEnqueueWaker = (*defaultPreemption)(nil)
)

func newPreemption(q APIWriter) plugins.Factory {
	return func(_ context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
		own, ok := args.(*config.DefaultPreemptionArgs)
		if !ok {
			return nil, fmt.Errorf("arguments are of type %T, want %T", args, own)
		}
		handle, ok := h.(*frameworkruntime.Handle)
		if !ok {
			return nil, fmt.Errorf("the handle is a %T: this plugin runs in this scheduler only", h)
		}
		return &defaultPreemption{handle: handle, writer: q, args: own,
			budgets: h.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister()}, nil
	}
}

// Name is DefaultPreemption.
func (*defaultPreemption) Name() string { return plugins.DefaultPreemption }

// PreEnqueue keeps a Pod out of the queue while its victims are being evicted: it could only fail
// again.
func (p *defaultPreemption) PreEnqueue(_ context.Context, pod *v1.Pod) *framework.Status {
	if p.pendingEvictions.isBlocked(pod.UID, p.handle.AssignedPod) {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable,
			"waiting for the preemption for this pod to be finished")
	}
	return nil
}

// EventsToRegister has PreEnqueue asked again when the last victim goes. The Filter plugins
// themselves register for the end of victims.
func (*defaultPreemption) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{
		{Event: framework.ClusterEvent{Resource: framework.AssignedPod, ActionType: framework.Delete}}}, nil
}

// ConcernedPods lists the Pods whose last victim went, so that not every deletion has PreEnqueue
// asked about all gated Pods.
func (p *defaultPreemption) ConcernedPods(before, _ any) []types.UID {
	gone, ok := before.(*v1.Pod)
	if !ok {
		return nil
	}
	return p.pendingEvictions.preemptorsOf(gone.UID, p.handle.AssignedPod)
}

// PostFilter searches for victims and, when it finds a node, nominates the Pod to it and evicts the
// victims beside the next cycles.
func (p *defaultPreemption) PostFilter(ctx context.Context, state framework.CycleState, preemptor *v1.Pod,
	refused framework.NodeToStatusReader) (_ *framework.PostFilterResult, status *framework.Status) {
	var search frameworkruntime.PreemptionAttempt
	status = errSearchAborted
	defer p.reportSearch(time.Now(), &search, &status)
	budgets, err := p.budgets.List(labels.Everything())
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	in := preemption.Input{Input: p.handle.ScheduleInput(preemptor, state), NodeToStatus: refused, Budgets: budgets,
		Percent: *p.args.MinCandidateNodesPercentage, Absolute: *p.args.MinCandidateNodesAbsolute}
	if all := p.handle.ExtendersFor(preemptor); len(all) > 0 {
		in.ProcessExtenders = func(v map[string]*extenderv1.Victims) (map[string]*extenderv1.Victims, error) {
			return all.ProcessPreemption(preemptor, v, in.Snapshot)
		}
	}
	if why, ok := preemption.PodEligibleToPreemptOthers(in); !ok {
		return nil, framework.NewStatus(framework.Unschedulable, "preemption: "+why)
	}
	choice, err := p.searchChecked(ctx, in)
	switch {
	case err != nil:
		return nil, framework.AsStatus(fmt.Errorf("preemption: %w", err))
	case choice.Node == "":
		return nominatedNodeResult(""), framework.NewStatus(framework.Unschedulable, "preemption: "+choice.Message)
	}
	search.Victims, search.Units, search.PDBViolations = len(choice.Victims), len(choice.Victims), choice.PDBViolations
	eviction := pendingEviction{preemptor: preemptor, node: choice.Node, victims: choice.Victims,
		reports: preemption.VictimReports(ctx, in, choice)}
	if hook := p.handle.Hooks().Preempting; hook != nil {
		hook(preemptor, choice.Node, choice.Victims)
	}
	eviction.nominatedToClear = preemption.LowerPriorityNominatedPods(preemptor,
		p.handle.NominatedPodsForNode(choice.Node))
	for _, o := range eviction.nominatedToClear {
		p.handle.DeleteNominatedPodIfExists(o)
	}
	p.evict(ctx, eviction)
	return nominatedNodeResult(choice.Node),
		framework.NewStatus(framework.Success,
			fmt.Sprintf("preemption: found a potential placement for pod on node %s, preempting %d victims",
				choice.Node, len(choice.Victims)))
}

// errSearchAborted is the status of a search that panicked; the caller of PostFilter recovers.
var errSearchAborted = framework.NewStatus(framework.Error, "the search for victims broke off")

// reportSearch calls the hook with how a search ended.
func (p *defaultPreemption) reportSearch(began time.Time, h *frameworkruntime.PreemptionAttempt,
	status **framework.Status) {
	if hook := p.handle.Hooks().PreemptionSearched; hook != nil {
		h.Took, h.Code = time.Since(began), (*status).Code()
		hook(*h)
	}
}

// searchChecked searches for victims with cached results; with ShadowCheck also without, and then
// the choice without counts.
func (p *defaultPreemption) searchChecked(ctx context.Context, in preemption.Input) (preemption.Candidate, error) {
	in.SearchCache = &p.dryRunCache
	doubted := p.handle.Hooks().ShadowCheckFailed
	if doubted == nil {
		return preemption.Preempt(ctx, in)
	}
	if pick := in.PickTie; pick != nil { // both look from the same node on
		at := pick(math.MaxInt32)
		in.PickTie = func(n int) int { return at % n }
	}
	writer, err := preemption.Preempt(ctx, in)
	if err != nil {
		return writer, err
	}
	in.SearchCache = nil
	plain, err := preemption.Preempt(ctx, in)
	if err == nil {
		doubted(ctx, in.Pod, preemption.Differences(writer, plain))
	}
	return plain, err
}

func nominatedNodeResult(node string) *framework.PostFilterResult {
	return &framework.PostFilterResult{NominatingInfo: &framework.NominatingInfo{NominatedNodeName: node,
		NominatingMode: framework.ModeOverride}}
}
