package bind

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/klog/v2"
	config "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/glue"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/preempt"
)

// preemption makes Pods of lower priority leave for one that fits nowhere.
type preemption struct {
	handle  *glue.Handle
	args    *config.DefaultPreemptionArgs
	budgets policylisters.PodDisruptionBudgetLister
}

var _ framework.PostFilterPlugin = (*preemption)(nil)

func newPreemption(_ context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
	own, ok := args.(*config.DefaultPreemptionArgs)
	if !ok {
		return nil, fmt.Errorf("arguments are of type %T, want %T", args, own)
	}
	handle, ok := h.(*glue.Handle)
	if !ok {
		return nil, fmt.Errorf("the handle is a %T: this plugin runs in this scheduler only", h)
	}
	return &preemption{handle, own, h.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister()}, nil
}

// Name is DefaultPreemption.
func (*preemption) Name() string { return plugins.DefaultPreemption }

// EventsToRegister wakes for nothing of its own: the filters that refused know when victims are gone.
func (*preemption) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return nil, nil
}

// PostFilter searches and, when it finds a node, asks its victims to leave and nominates it.
func (p *preemption) PostFilter(ctx context.Context, state framework.CycleState, preemptor *v1.Pod, refused framework.NodeToStatusReader) (*framework.PostFilterResult, *framework.Status) {
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
	choice, err := preempt.Search(ctx, in)
	switch {
	case err != nil:
		return nil, framework.AsStatus(fmt.Errorf("preemption: %w", err))
	case choice.Node == "":
		return nominate(""), framework.NewStatus(framework.Unschedulable, "preemption: "+choice.Message)
	}
	for _, victim := range choice.Victims {
		if err := p.evict(ctx, preemptor, victim, choice.Node); err != nil {
			return nil, framework.AsStatus(fmt.Errorf("preemption: %w", err))
		}
	}
	p.handle.Preempted(preemptor, choice.Node, choice.Victims)
	p.denominate(preemptor, choice.Node)
	return nominate(choice.Node), nil
}

func nominate(node string) *framework.PostFilterResult {
	return &framework.PostFilterResult{NominatingInfo: &framework.NominatingInfo{NominatedNodeName: node, NominatingMode: framework.ModeOverride}}
}

// denominate takes the node back from Pods of lower priority that were promised it: they may fit elsewhere now.
func (p *preemption) denominate(preemptor *v1.Pod, node string) {
	for _, other := range p.handle.NominatedPodsForNode(node) {
		if o := other.GetPod(); pod.Priority(o) < pod.Priority(preemptor) {
			p.handle.DeleteNominatedPodIfExists(o)
		}
	}
}

// evict ends a victim: a Pod still waiting to be bound is turned back, any other gets its DisruptionTarget condition and is deleted.
func (p *preemption) evict(ctx context.Context, preemptor, victim *v1.Pod, node string) error {
	defer p.handle.EventRecorder().Eventf(victim, preemptor, v1.EventTypeNormal, "Preempted", "Preempting", "Preempted by pod %v on node %v", preemptor.UID, node)
	if w := p.handle.GetWaitingPod(victim.UID); w != nil {
		w.Preempt(plugins.DefaultPreemption, "preempted")
		return nil
	}
	if b := p.handle.GetPodInPreBind(victim.UID); b != nil && b.CancelPod(fmt.Sprintf("preempted by %s", plugins.DefaultPreemption)) {
		return nil
	}
	if victim.DeletionTimestamp == nil {
		if err := p.markDisrupted(ctx, victim); err != nil {
			return err
		}
	}
	err := p.handle.ClientSet().CoreV1().Pods(victim.Namespace).Delete(ctx, victim.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(victim.UID))})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting victim %s: %w", pod.Key(victim), err)
	}
	klog.FromContext(ctx).V(2).Info("Preemptor Pod preempted victim Pod", "preemptor", klog.KObj(preemptor), "victim", klog.KObj(victim), "node", node)
	return nil
}

func (p *preemption) markDisrupted(ctx context.Context, victim *v1.Pod) error {
	status := victim.Status.DeepCopy()
	SetCondition(status, v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, ObservedGeneration: victim.Generation,
		Reason: v1.PodReasonPreemptionByScheduler, Message: fmt.Sprintf("%s: preempting to accommodate a higher priority pod", p.handle.ProfileName()),
	})
	before, err := json.Marshal(v1.Pod{Status: victim.Status})
	if err != nil {
		return fmt.Errorf("status of victim %s: %w", pod.Key(victim), err)
	}
	after, err := json.Marshal(v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: victim.UID}, Status: *status})
	if err != nil {
		return fmt.Errorf("status of victim %s: %w", pod.Key(victim), err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, &v1.Pod{})
	if err != nil {
		return fmt.Errorf("status of victim %s: %w", pod.Key(victim), err)
	}
	_, err = p.handle.ClientSet().CoreV1().Pods(victim.Namespace).Patch(ctx, victim.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("marking victim %s as disrupted: %w", pod.Key(victim), err)
	}
	return nil
}
