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

// podGroup explains a Pod whose PodGroup (scheduling.k8s.io/v1beta1) cannot be placed as a whole:
// the group or members do not exist, or there is not enough room.
func podGroup(in In) *Answer {
	if in.Pod == nil || in.Pod.Spec.NodeName != "" || len(in.Pod.Spec.SchedulingGates) > 0 ||
		gangscheduling.PodGroupNameOf(in.Pod) == "" || in.ClusterContext == nil || !in.ClusterContext.Groups.Read {
		return nil
	}
	name := gangscheduling.PodGroupNameOf(in.Pod)
	a := &Answer{State: "Pending", Since: in.Pod.CreationTimestamp.Time}
	g := in.ClusterContext.Groups.find(in.Pod.Namespace, name)
	if g == nil {
		a.Cause = fmt.Sprintf("The Pod's spec.schedulingGroup names the PodGroup %s, which does not exist in "+
			"namespace %s: GangScheduling keeps the Pod out of the queue until it does.", name, in.Pod.Namespace)
		a.Fixes = textFixes(
			fmt.Sprintf("make the PodGroup %s (scheduling.k8s.io/v1beta1) in namespace %s, or make the Pod anew "+
				"without spec.schedulingGroup", name, in.Pod.Namespace))
		return a
	}
	if g.Spec.SchedulingPolicy.Gang == nil {
		return nil // its Pods are scheduled one by one
	}
	members, bound := membersOf(in, gangscheduling.PodGroupNameOf)
	a.Findings = heldMembers(in, members)
	var gated []string
	members = slices.DeleteFunc(members, func(p *corev1.Pod) bool {
		if len(p.Spec.SchedulingGates) == 0 {
			return false
		}
		gated = append(gated, p.Name)
		return true
	})
	least := gangscheduling.MinCount(g)
	if have := len(members) + len(gated) + bound; have < least {
		a.Cause = fmt.Sprintf("The Pod is a member of the PodGroup %s, whose minCount is %d, and only %d of its Pods "+
			"exist: GangScheduling keeps them out of the queue.", name, least, have)
		a.Fixes = append(
			textFixes(fmt.Sprintf("create the %d Pods that are missing, with spec.schedulingGroup.podGroupName: %s",
				least-have, name)), lowerMinCount(in, name, have))
		return a
	}
	if have := len(members) + bound; have < least {
		a.Cause = fmt.Sprintf("The Pod waits for its PodGroup %s, whose minCount is %d: only %d of its Pods can be "+
			"tried, because %s has scheduling gates.", name, least, have, joinList(gated))
		a.Fixes = append(textFixes("have the gates removed by whoever put them there: "+joinList(gated)),
			lowerMinCount(in, name, have))
		return a
	}
	return groupUnschedulable(a, in, groupMembers{name: name, members: members, minMembers: least, boundMembers: bound})
}

// groupMembers is a group whose Pods all exist.
type groupMembers struct {
	name                     string
	members                  []*corev1.Pod // members without a node, the explained Pod first
	minMembers, boundMembers int
}

// groupUnschedulable simulates placing the members and reports how many fit, and what the next one
// lacks.
func groupUnschedulable(a *Answer, in In, c groupMembers) *Answer {
	if in.ClusterContext.Plugins == nil || len(c.members) == 0 || c.boundMembers >= c.minMembers {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), searchTimeout)
	defer cancel()
	w := in.whatifInput()
	need := c.members[:min(len(c.members), c.minMembers-c.boundMembers)]
	g, err := whatif.PlaceGroup(ctx, w, need)
	// the Pod itself fits nowhere: a later cause explains that
	if err != nil || g.Unschedulable == nil || g.Nodes[in.Pod.Name] == "" {
		return nil
	}
	if len(need) < len(c.members) && enoughWithoutBlocked(ctx, w, c) {
		return nil
	}
	a.Cause = fmt.Sprintf("The Pod itself has a place (%s), but its PodGroup %s needs %d Pods at once (minCount), "+
		"and only %d can be placed: none is bound.", g.Nodes[in.Pod.Name], c.name, c.minMembers,
		c.boundMembers+len(g.Nodes))
	groupBlocked(a, in, g, need)
	a.Findings = append(append(a.Findings, withoutRoom(in, c, c.boundMembers+len(g.Nodes))),
		refusalFindings(in.of(g.Unschedulable), g.Refusals)...)
	a.Next = "the whole group is tried again when a node, a Pod or a volume changes in a way that can help one of them"
	for _, r := range whatif.CompleteGroup(ctx, w, need, g) {
		a.Fixes = append(a.Fixes, provenFix(r))
	}
	a.Fixes = append(a.Fixes, lowerMinCount(in, c.name, c.boundMembers+len(g.Nodes)))
	return a
}

// enoughWithoutBlocked reports whether enough members fit if those that do not are skipped.
func enoughWithoutBlocked(ctx context.Context, w whatif.In, c groupMembers) bool {
	left, placed := slices.Clone(c.members), c.boundMembers
	for len(left) > 0 && ctx.Err() == nil {
		g, err := whatif.PlaceGroup(ctx, w, left)
		if err != nil {
			return false
		}
		placed += len(g.Nodes)
		if g.Unschedulable == nil {
			break
		}
		w.Snapshot = g.Snapshot
		left = left[slices.Index(left, g.Unschedulable)+1:]
	}
	return placed >= c.minMembers
}

func lowerMinCount(in In, group string, to int) Fix {
	return commandFix(fmt.Sprintf("lower minCount of the group to %d, if its work can be done by so many", to),
		fmt.Sprintf(
			`kubectl -n %s patch podgroups.scheduling.k8s.io %s --type=merge -p `+
				`'{"spec":{"schedulingPolicy":{"gang":{"minCount":%d}}}}'`, in.Pod.Namespace, group, to))
}

// Groups are the PodGroups of scheduling.k8s.io/v1beta1 in the Pod's namespace, and the one of
// scheduling.x-k8s.io that its label names.
type Groups struct {
	Read     bool // they were read: a group that is not here does not exist
	List     []*schedulingv1beta1.PodGroup
	Labelled *coscheduling.Group // nil: it does not exist, or the user may not read it
}

func (g Groups) find(namespace, name string) *schedulingv1beta1.PodGroup {
	for _, o := range g.List {
		if o.Namespace == namespace && o.Name == name {
			return o
		}
	}
	return nil
}
