package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/coscheduling"
)

// coschedulingGroup explains a Pod that fits by itself but whose group does not: it waits at
// Permit, or was rejected with the others.
func coschedulingGroup(in In) *Answer {
	if in.Pod == nil || in.Pod.Spec.NodeName != "" || len(in.Pod.Spec.SchedulingGates) > 0 ||
		coscheduling.PodGroupLabelOf(in.Pod) == "" || in.ClusterContext == nil {
		return nil
	}
	word, since, ok := coschedulingMessage(in)
	// the journal may be missing or incomplete: then the group decides, unless another plugin
	// rejected the Pod
	if !ok {
		f, _, known := newest[journal.Ruled](in, nil)
		if in.ClusterContext.Groups.Labelled == nil || known && f.Winner == "" {
			return nil
		}
		since = in.Pod.CreationTimestamp.Time
	}
	group := coscheduling.PodGroupLabelOf(in.Pod)
	a := &Answer{State: "Pending", Since: since}
	// otherwise the group has been created since, and the Pod will be retried
	if strings.Contains(word, coscheduling.NoPodGroup) && in.ClusterContext.Groups.Labelled == nil {
		a.Cause = fmt.Sprintf("The Pod's label %s names the PodGroup %s, which does not exist in namespace %s: "+
			"Coscheduling turns the Pod away at Permit.", coscheduling.Label, group, in.Pod.Namespace)
		a.Fixes = []Fix{commandFix("make the PodGroup "+group+", or take the label off the Pod's manifest",
			fmt.Sprintf("kubectl -n %s label pod %s %s-", in.Pod.Namespace, in.Pod.Name, coscheduling.Label))}
		return a
	}
	members, bound := membersOf(in, coscheduling.PodGroupLabelOf)
	least, known := minMember(in)
	if !known {
		least = len(members) + bound
	}
	if len(members)+bound < least {
		a.Cause = fmt.Sprintf("The Pod is a member of the group %s, which Coscheduling places only with %d members "+
			"at once, and only %d of its Pods exist.", group, least, len(members)+bound)
		a.Fixes = append(textFixes(fmt.Sprintf("create the %d members that are missing, with the label %s=%s",
			least-len(members)-bound, coscheduling.Label, group)), lowerMinMember(in, group, len(members)+bound))
		return a
	}
	return groupShortfall(a, in, members[:min(len(members), max(least-bound, 0))], least)
}

// coschedulingMessage returns Coscheduling's last message about the Pod, if that plugin is what
// rejects it.
func coschedulingMessage(in In) (string, time.Time, bool) {
	for _, e := range slices.Backward(in.Entries) {
		switch f := e.Fact.(type) {
		case journal.Waiting:
			return f.For, e.At, strings.Contains(f.For, coscheduling.Name)
		case journal.BindFailed:
			return f.Error, e.At, f.Plugin == coscheduling.Name
		case journal.Ruled:
			if f.Winner == "" {
				return f.Message, e.At, f.By == coscheduling.Name || strings.Contains(f.Message, "PodGroup")
			}
		}
	}
	return "", time.Time{}, false
}

// minMember returns the group's minMember, or the one in Coscheduling's message.
func minMember(in In) (int, bool) {
	if g := in.ClusterContext.Groups.Labelled; g != nil {
		return int(g.Spec.MinMember), true
	}
	for _, e := range slices.Backward(in.Entries) {
		text := ""
		switch f := e.Fact.(type) {
		case journal.Waiting:
			text = f.For
		case journal.Ruled:
			text = f.Message
		}
		if n, ok := coscheduling.ParseMinimum(text); ok {
			return n, true
		}
	}
	return 0, false
}

// membersOf returns the members of the Pod's group without a node, the Pod first and then the
// oldest, and the number of those with one.
func membersOf(in In, of func(*corev1.Pod) string) (waiting []*corev1.Pod, bound int) {
	for _, p := range in.ClusterContext.Pods {
		switch {
		case p.Namespace != in.Pod.Namespace || of(p) != of(in.Pod) || !pod.IsActive(p):
		case p.Spec.NodeName != "":
			bound++
		default:
			waiting = append(waiting, p)
		}
	}
	slices.SortStableFunc(waiting, func(a, b *corev1.Pod) int {
		return cmp.Or(boolToInt(b.UID == in.Pod.UID)-boolToInt(a.UID == in.Pod.UID),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return waiting, bound
}

func boolToInt(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// groupShortfall simulates placing the members and reports how many fit, and what the next one
// lacks.
func groupShortfall(a *Answer, in In, members []*corev1.Pod, least int) *Answer {
	if in.ClusterContext.Plugins == nil || len(members) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), searchTimeout)
	defer cancel()
	w := in.whatifInput()
	g, err := whatif.PlaceGroup(ctx, w, members)
	// the Pod itself fits nowhere: a later cause explains that
	if err != nil || g.Unschedulable == nil || g.Nodes[in.Pod.Name] == "" {
		return nil
	}
	group := coscheduling.PodGroupLabelOf(in.Pod)
	bound := least - len(members)
	a.Cause = fmt.Sprintf("The Pod itself has a place (%s) and waits at Permit (Coscheduling) for its group %s, "+
		"which needs %d members at once: only %d can be placed.", g.Nodes[in.Pod.Name], group, least,
		bound+len(g.Nodes))
	groupBlocked(a, in, g, members)
	a.Next = "placed members give their nodes back when the group's time at Permit is over, and all are tried again " +
		"when something changes that can help"
	for _, r := range whatif.CompleteGroup(ctx, w, members, g) {
		a.Fixes = append(a.Fixes, provenFix(r))
	}
	a.Fixes = append(a.Fixes, lowerMinMember(in, group, bound+len(g.Nodes)))
	return a
}

// groupBlocked adds where members of a group fit now, and why the next one does not.
func groupBlocked(a *Answer, in In, g whatif.GroupPlacement, members []*corev1.Pod) {
	var have []string
	for _, m := range members {
		if n := g.Nodes[m.Name]; n != "" {
			have = append(have, m.Name+" on "+n)
		}
	}
	slices.SortStableFunc(g.Refusals, compareRefusals)
	if len(g.Refusals) > 0 {
		a.Cause += fmt.Sprintf(" The next one, %s, fits on no node then: %s.", g.Unschedulable.Name,
			refusalText(g.Refusals[0], in))
	}
	a.Facts = append(a.Facts, "as it could be now: "+strings.Join(have, ", "))
	for i, r := range g.Refusals {
		if i == maxNodesShown {
			break
		}
		a.Facts = append(a.Facts, g.Unschedulable.Name+": "+refusalText(r, in))
	}
}

func lowerMinMember(in In, group string, to int) Fix {
	return commandFix(fmt.Sprintf("lower minMember of the group to %d, if its work can be done by so many", to),
		fmt.Sprintf(`kubectl -n %s patch podgroups.scheduling.x-k8s.io %s --type=merge -p '{"spec":{"minMember":%d}}'`,
			in.Pod.Namespace, group, to))
}
