package explain

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/coscheduling"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/gangscheduling"
)

// podGroup tells of a Pod whose PodGroup (scheduling.k8s.io/v1beta1) cannot be placed as a whole: the group or members are missing, or there is no room for enough.
func podGroup(in In) *Answer {
	if in.Pod == nil || in.Pod.Spec.NodeName != "" || len(in.Pod.Spec.SchedulingGates) > 0 || gangscheduling.Of(in.Pod) == "" || in.Cluster == nil || !in.Cluster.Groups.Read {
		return nil
	}
	name := gangscheduling.Of(in.Pod)
	a := &Answer{State: "Pending", Since: in.Pod.CreationTimestamp.Time}
	g := in.Cluster.Groups.find(in.Pod.Namespace, name)
	if g == nil {
		a.Cause = fmt.Sprintf("The Pod's spec.schedulingGroup names the PodGroup %s, which does not exist in namespace %s: GangScheduling keeps the Pod out of the queue until it does.", name, in.Pod.Namespace)
		a.Fixes = says(fmt.Sprintf("make the PodGroup %s (scheduling.k8s.io/v1beta1) in namespace %s, or make the Pod anew without spec.schedulingGroup", name, in.Pod.Namespace))
		return a
	}
	if g.Spec.SchedulingPolicy.Gang == nil {
		return nil // its Pods stand alone
	}
	members, bound := membersOf(in, gangscheduling.Of)
	var gated []string
	members = slices.DeleteFunc(members, func(p *corev1.Pod) bool {
		if len(p.Spec.SchedulingGates) == 0 {
			return false
		}
		gated = append(gated, p.Name)
		return true
	})
	least := gangscheduling.Least(g)
	if have := len(members) + len(gated) + bound; have < least {
		a.Cause = fmt.Sprintf("The Pod is a member of the PodGroup %s, whose minCount is %d, and only %d of its Pods exist: GangScheduling keeps them out of the queue.", name, least, have)
		a.Fixes = append(says(fmt.Sprintf("create the %d Pods that are missing, with spec.schedulingGroup.podGroupName: %s", least-have, name)), lowerMinCount(in, name, have))
		return a
	}
	if have := len(members) + bound; have < least {
		a.Cause = fmt.Sprintf("The Pod waits for its PodGroup %s, whose minCount is %d: only %d of its Pods can be tried, because %s has scheduling gates.", name, least, have, several(gated))
		a.Fixes = append(says("have the gates removed by whoever put them there: "+several(gated)), lowerMinCount(in, name, have))
		return a
	}
	return crowded(a, in, crowd{name: name, members: members, least: least, bound: bound})
}

// crowd is a group whose Pods all exist.
type crowd struct {
	name         string
	members      []*corev1.Pod // without a node, the Pod asked about first
	least, bound int
}

// crowded places the members in thought and tells how many have a place, and what the next one lacks.
func crowded(a *Answer, in In, c crowd) *Answer {
	if in.Cluster.Judges == nil || len(c.members) == 0 || c.bound >= c.least {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), thinking)
	defer cancel()
	w := in.what()
	need := c.members[:min(len(c.members), c.least-c.bound)]
	g, err := whatif.Together(ctx, w, need)
	if err != nil || g.Stuck == nil || g.On[in.Pod.Name] == "" { // the Pod itself fits nowhere: that is its own matter
		return nil
	}
	if len(need) < len(c.members) && enoughOthers(ctx, w, c) {
		return nil
	}
	a.Cause = fmt.Sprintf("The Pod itself has a place (%s), but its PodGroup %s needs %d Pods at once (minCount), and only %d can be placed: none is bound.", g.On[in.Pod.Name], c.name, c.least, c.bound+len(g.On))
	stuckTogether(a, in, g, need)
	a.Next = "the whole group is tried again when a node, a Pod or a volume changes in a way that can help one of them"
	for _, r := range whatif.Complete(ctx, w, need, g) {
		a.Fixes = append(a.Fixes, Fix{Say: r.Say, Run: r.Run, Proven: true})
	}
	a.Fixes = append(a.Fixes, lowerMinCount(in, c.name, c.bound+len(g.On)))
	return a
}

// enoughOthers tells whether enough members have a place when those that have none are passed over.
func enoughOthers(ctx context.Context, w whatif.In, c crowd) bool {
	left, placed := slices.Clone(c.members), c.bound
	for len(left) > 0 && ctx.Err() == nil {
		g, err := whatif.Together(ctx, w, left)
		if err != nil {
			return false
		}
		placed += len(g.On)
		if g.Stuck == nil {
			break
		}
		w.World = g.World
		left = left[slices.Index(left, g.Stuck)+1:]
	}
	return placed >= c.least
}

func lowerMinCount(in In, group string, to int) Fix {
	return do(fmt.Sprintf("lower minCount of the group to %d, if its work can be done by so many", to),
		fmt.Sprintf(`kubectl -n %s patch podgroups.scheduling.k8s.io %s --type=merge -p '{"spec":{"schedulingPolicy":{"gang":{"minCount":%d}}}}'`, in.Pod.Namespace, group, to))
}

// Groups are the PodGroups of scheduling.k8s.io/v1beta1 in the Pod's namespace, and the one of scheduling.x-k8s.io that its label names.
type Groups struct {
	Read     bool // they were read: a group that is not here does not exist
	List     []*schedulingv1beta1.PodGroup
	Labelled *coscheduling.Group // nil: there is none, or the asker may not see it
}

func (g Groups) find(namespace, name string) *schedulingv1beta1.PodGroup {
	for _, o := range g.List {
		if o.Namespace == namespace && o.Name == name {
			return o
		}
	}
	return nil
}
