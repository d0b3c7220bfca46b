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
	"github.com/gantry-project/gantry/internal/scheduler/glue"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/gangscheduling"
	"github.com/gantry-project/gantry/internal/scheduler/preempt"
)

var _ glue.GangPostFilter = (*preemption)(nil)

// PostFilterGang searches for Pods whose leaving gives a group room, nominates its Pods and makes the victims leave beside the next cycles.
func (p *preemption) PostFilterGang(ctx context.Context, g glue.Gang) (_ map[types.UID]string, status *framework.Status) {
	hunt := glue.Hunt{Group: true}
	status = brokeOff
	defer p.searched(time.Now(), &hunt, &status)
	refuse := func(why string) (map[types.UID]string, *framework.Status) {
		return nil, framework.NewStatus(framework.Unschedulable, "pod group preemption: "+why)
	}
	budgets, err := p.budgets.List(labels.Everything())
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	in := p.handle.In(g.Pods[0], nil)
	choice, err := preempt.SearchGroup(ctx, preempt.Group{
		Pods: g.Pods, Need: g.Need, Priority: priorityOf(g), World: in.World, Judges: in.Judges, Budgets: budgets, With: p.together,
	})
	switch {
	case err != nil:
		return refuse(err.Error())
	case choice.Message != "":
		return refuse(choice.Message)
	case len(choice.Victims) == 0:
		return refuse(preempt.NoGroupVictims)
	}
	hunt.Victims, hunt.Units, hunt.Broken = len(choice.Victims), choice.Units, choice.Broken
	for _, job := range p.jobs(g, choice, in.World.Node) {
		if told := p.handle.Told().Preempting; told != nil {
			told(job.preemptor, job.node, job.victims)
		}
		p.under.begin(job.preemptor.UID, time.Now())
		p.handle.Go(func() { p.carryOut(ctx, job) })
	}
	return choice.On, nil
}

// priorityOf is the group's own; without one that of its least Pod.
func priorityOf(g glue.Gang) int32 {
	if n := g.Object.Spec.Priority; n != nil {
		return *n
	}
	return pod.Priority(slices.MinFunc(g.Pods, func(a, b *v1.Pod) int { return cmp.Compare(pod.Priority(a), pod.Priority(b)) }))
}

// together names the Pods that can only be disrupted with a Pod: those of its group, when the group says so.
func (p *preemption) together(o *v1.Pod) []types.UID {
	name := gangscheduling.Of(o)
	if name == "" {
		return nil
	}
	groups := p.handle.PodGroupManager()
	if g, err := groups.PodGroups().Get(o.Namespace, name); err != nil || !whole(g) {
		return nil
	}
	state, err := groups.PodGroupStates().Get(o.Namespace, name)
	if err != nil {
		return nil
	}
	return state.AllPods().UnsortedList()
}

func whole(g *schedulingv1beta1.PodGroup) bool {
	return g.Spec.DisruptionMode != nil && g.Spec.DisruptionMode.All != nil
}

// jobs gives every victim to a Pod of the group that gets its node; one whose node nobody gets leaves for the first.
func (p *preemption) jobs(g glue.Gang, c preempt.GroupChoice, node func(string) framework.NodeInfo) []eviction {
	var out []eviction
	at := map[string]int{}
	for _, m := range g.Pods {
		n, ok := c.On[m.UID]
		if _, have := at[n]; ok && !have {
			at[n] = len(out)
			out = append(out, eviction{preemptor: m, group: true, node: n, lower: preempt.Lower(m, p.handle.NominatedPodsForNode(n))})
		}
	}
	for _, v := range c.Victims {
		i := at[standsOn(v, node)] // 0 when nobody gets its node
		out[i].victims = append(out[i].victims, v)
		out[i].stories = append(out[i].stories, journal.Preempted{
			By: pod.Key(out[i].preemptor), Class: out[i].preemptor.Spec.PriorityClassName, Priority: priorityOf(g), Own: pod.Priority(v), Node: out[i].node, Candidates: 1, Victims: len(c.Victims),
		})
	}
	return slices.DeleteFunc(out, func(e eviction) bool { return len(e.victims) == 0 })
}

// standsOn is a victim's node; one that is only assumed there has it in its copy.
func standsOn(v *v1.Pod, node func(string) framework.NodeInfo) string {
	if n := v.Spec.NodeName; node(n) != nil {
		return n
	}
	return ""
}
