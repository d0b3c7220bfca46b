package bind

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/gangscheduling"
	"github.com/gantry-project/gantry/internal/scheduler/preemption"
)

var _ frameworkruntime.PodGroupPostFilterPlugin = (*defaultPreemption)(nil)

// PostFilterPodGroup searches for victims whose eviction gives a group room, nominates its Pods and
// evicts the victims beside the next cycles.
func (p *defaultPreemption) PostFilterPodGroup(ctx context.Context,
	g frameworkruntime.UnschedulablePodGroup) (_ map[types.UID]string, status *framework.Status) {
	search := frameworkruntime.PreemptionAttempt{PodGroup: true}
	status = errSearchAborted
	defer p.reportSearch(time.Now(), &search, &status)
	refuse := func(why string) (map[types.UID]string, *framework.Status) {
		return nil, framework.NewStatus(framework.Unschedulable, "pod group preemption: "+why)
	}
	budgets, err := p.budgets.List(labels.Everything())
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	in := p.handle.ScheduleInput(g.Pods[0], nil)
	choice, err := preemption.PreemptForPodGroup(ctx, preemption.PodGroupInput{
		Pods: g.Pods, MinCount: g.MinCount, Priority: priorityOf(g), Snapshot: in.Snapshot, Plugins: in.Plugins,
		Budgets: budgets, DisruptedTogether: p.disruptedTogether,
	})
	switch {
	case err != nil:
		return refuse(err.Error())
	case choice.Message != "":
		return refuse(choice.Message)
	case len(choice.Victims) == 0:
		return refuse(preemption.NoGroupVictims)
	}
	search.Victims, search.Units, search.PDBViolations = len(choice.Victims), choice.Units, choice.PDBViolations
	for _, eviction := range p.evictionsOf(g, choice, in.Snapshot.Node) {
		if hook := p.handle.Hooks().Preempting; hook != nil {
			hook(eviction.preemptor, eviction.node, eviction.victims)
		}
		p.evict(ctx, eviction)
	}
	return choice.NodeOf, nil
}

// priorityOf is the group's own priority; without one, the lowest of its Pods.
func priorityOf(g frameworkruntime.UnschedulablePodGroup) int32 {
	if n := g.Object.Spec.Priority; n != nil {
		return *n
	}
	return pod.Priority(slices.MinFunc(g.Pods,
		func(a, b *v1.Pod) int { return cmp.Compare(pod.Priority(a), pod.Priority(b)) }))
}

// disruptedTogether lists the Pods that can only be disrupted with a Pod: those of its group, when
// the group's disruption mode says so.
func (p *defaultPreemption) disruptedTogether(o *v1.Pod) []types.UID {
	name := gangscheduling.PodGroupNameOf(o)
	if name == "" {
		return nil
	}
	groups := p.handle.PodGroupManager()
	if g, err := groups.PodGroups().Get(o.Namespace, name); err != nil || !isDisruptedAsGroup(g) {
		return nil
	}
	state, err := groups.PodGroupStates().Get(o.Namespace, name)
	if err != nil {
		return nil
	}
	return state.AllPods().UnsortedList()
}

func isDisruptedAsGroup(g *schedulingv1beta1.PodGroup) bool {
	return g.Spec.DisruptionMode != nil && g.Spec.DisruptionMode.All != nil
}

// evictionsOf gives every victim to the Pod of the group that gets its node as preemptor; a victim
// whose node no Pod gets, to the first.
func (p *defaultPreemption) evictionsOf(g frameworkruntime.UnschedulablePodGroup, c preemption.PodGroupCandidate,
	node func(string) framework.NodeInfo) []pendingEviction {
	var out []pendingEviction
	at := map[string]int{}
	for _, m := range g.Pods {
		n, ok := c.NodeOf[m.UID]
		if _, have := at[n]; ok && !have {
			at[n] = len(out)
			out = append(out, pendingEviction{preemptor: m, podGroup: true, node: n,
				nominatedToClear: preemption.LowerPriorityNominatedPods(m, p.handle.NominatedPodsForNode(n))})
		}
	}
	for _, v := range c.Victims {
		i := at[nodeOf(v, node)] // 0 when nobody gets its node
		out[i].victims = append(out[i].victims, v)
		out[i].reports = append(out[i].reports, journal.Preempted{
			By: pod.Key(out[i].preemptor), Class: out[i].preemptor.Spec.PriorityClassName, Priority: priorityOf(g),
			Own: pod.Priority(v), Node: out[i].node, Candidates: 1, Victims: len(c.Victims),
		})
	}
	return slices.DeleteFunc(out, func(e pendingEviction) bool { return len(e.victims) == 0 })
}

// nodeOf is a victim's node; an assumed Pod has it in its copy.
func nodeOf(v *v1.Pod, node func(string) framework.NodeInfo) string {
	if n := v.Spec.NodeName; node(n) != nil {
		return n
	}
	return ""
}
