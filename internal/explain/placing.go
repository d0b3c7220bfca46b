package explain

import (
	"fmt"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/journal"
)

// mostNodes bounds the nodes that are listed one by one.
const mostNodes = 20

func gated(in In) *Answer {
	if in.Pod == nil || len(in.Pod.Spec.SchedulingGates) == 0 || in.Pod.Spec.NodeName != "" {
		return nil
	}
	var names []string
	for _, g := range in.Pod.Spec.SchedulingGates {
		names = append(names, g.Name)
	}
	return &Answer{State: "SchedulingGated", Since: in.Pod.CreationTimestamp.Time,
		Cause: fmt.Sprintf("The Pod has scheduling gates (%s): the scheduler does not look at it until whoever set them removes them.", strings.Join(names, ", ")),
		Fixes: []string{fmt.Sprintf(`kubectl -n %s patch pod %s --type=json -p '[{"op":"remove","path":"/spec/schedulingGates"}]'`, in.Ref.Namespace, in.Ref.Name)}}
}

func unscheduled(in In) *Answer {
	if in.Pod == nil || in.Pod.Spec.NodeName != "" {
		return nil
	}
	a := &Answer{State: "Pending", Since: in.Pod.CreationTimestamp.Time}
	ruled, at, known := newest[journal.Ruled](in, nil)
	if failed, when, ok := newest[journal.BindFailed](in, nil); ok && when.After(at) {
		a.Cause = fmt.Sprintf("A node was chosen (%s), but the binding failed in %s: %s.", failed.Node, failed.Point, failed.Error)
		a.Next = "the scheduler tries again after its back-off"
		return a
	}
	switch {
	case known && ruled.Winner != "":
		a.Cause = fmt.Sprintf("Node %s was chosen; the binding is under way.", ruled.Winner)
		return a
	case known:
		refused(a, ruled)
	default:
		neverTried(a, in)
		return a
	}
	if q, _, ok := newest[journal.Queued](in, nil); ok {
		a.Facts = append(a.Facts, "stands in the scheduler's "+q.Queue+" queue because of "+q.Cause)
	}
	if p, _, ok := newest[journal.Preempting](in, nil); ok {
		a.Facts = append(a.Facts, p.Line())
		a.Next = "the Pod is placed when the preempted Pods are gone"
	}
	return a
}

// refused tells every node's refusal with its numbers, nearest first, and what would lift it.
func refused(a *Answer, r journal.Ruled) {
	a.Cause = "No node fits: " + strings.TrimSuffix(r.Message, ".") + "."
	if len(r.Refusals) == 0 && r.By != "" {
		a.Cause = fmt.Sprintf("%s refused the Pod before nodes were judged: %s", r.By, r.Message)
	}
	a.Next = "the Pod is tried again when a node, a Pod or a volume changes in a way that can help"
	refusals := append([]journal.NodeRefusal(nil), r.Refusals...)
	sort.SliceStable(refusals, func(i, j int) bool { return distance(refusals[i]) < distance(refusals[j]) })
	for i, n := range refusals {
		if i == mostNodes {
			a.Facts = append(a.Facts, fmt.Sprintf("and %d more nodes", len(refusals)-mostNodes))
			break
		}
		a.Facts = append(a.Facts, refusal(n))
	}
	seen := map[string]bool{}
	for _, n := range refusals {
		for _, fix := range fixes(n) {
			if !seen[fix] && len(a.Fixes) < 5 {
				seen[fix] = true
				a.Fixes = append(a.Fixes, fix)
			}
		}
	}
}

func refusal(n journal.NodeRefusal) string {
	s := n.Node + ": " + strings.Join(n.Messages, ", ")
	if len(n.Short) == 0 && n.Detail != "" {
		s += " (" + n.Detail + ")"
	}
	for _, x := range n.Short {
		free := x.Available - x.Used
		s += fmt.Sprintf("; %s: asks %s, %s free of %s, short by %s", x.Resource, amount(x.Resource, x.Asked), amount(x.Resource, free), amount(x.Resource, x.Available), amount(x.Resource, x.Asked-free))
	}
	return s
}

// distance ranks how near a node is: by the relative shortfall of resources; a node that refuses for another reason is farther.
func distance(n journal.NodeRefusal) float64 {
	if len(n.Short) == 0 {
		return 1000
	}
	var d float64
	for _, x := range n.Short {
		if x.Asked > 0 {
			d += float64(x.Asked-(x.Available-x.Used)) / float64(x.Asked)
		}
	}
	return d
}

func fixes(n journal.NodeRefusal) []string {
	var out []string
	if n.Fix != "" {
		out = append(out, n.Fix+" (then "+n.Node+" fits as far as "+n.Plugin+" goes)")
	}
	for _, x := range n.Short {
		free := x.Available - x.Used
		if free > 0 && n.Fix == "" {
			out = append(out, fmt.Sprintf("lower the request of %s to %s, or free %s on %s", x.Resource, amount(x.Resource, free), amount(x.Resource, x.Asked-free), n.Node))
		}
	}
	return out
}

// amount prints a quantity of a resource: milli-units for cpu, binary suffixes for memory.
func amount(name string, n int64) string {
	switch {
	case name == string(corev1.ResourceCPU):
		return resource.NewMilliQuantity(n, resource.DecimalSI).String()
	case name == string(corev1.ResourceMemory), name == string(corev1.ResourceEphemeralStorage), strings.HasPrefix(name, corev1.ResourceHugePagesPrefix):
		q := resource.NewQuantity(n, resource.BinarySI)
		if n%(1<<20) != 0 && n > 1<<20 {
			return fmt.Sprintf("%dMi", n>>20)
		}
		return q.String()
	}
	return fmt.Sprint(n)
}

func neverTried(a *Answer, in In) {
	if c := condition(in.Pod, corev1.PodScheduled); c != nil && c.Message != "" {
		a.Cause = "No node fits: " + c.Message
		a.Next = "the Pod is tried again when something changes that can help"
		return
	}
	a.Cause = fmt.Sprintf("No scheduler has looked at the Pod yet. It asks for scheduler %q.", in.Pod.Spec.SchedulerName)
	a.Fixes = []string{"check that a scheduler of that name runs; Gantry's own serves the profiles of its configuration, by default default-scheduler"}
}

func nodeLost(in In) *Answer {
	if in.Pod == nil || in.Pod.Spec.NodeName == "" {
		return nil
	}
	if in.Node == nil {
		return &Answer{State: "lost", Cause: fmt.Sprintf("The Pod is bound to node %s, which does not exist.", in.Pod.Spec.NodeName),
			Next:  "the Pod is marked Failed and removed when the node has been missing for 40 s",
			Fixes: []string{"create the node again, or delete the Pod"}}
	}
	for _, c := range in.Node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return &Answer{State: "on a node that is not ready", Since: c.LastTransitionTime.Time,
				Cause: fmt.Sprintf("Node %s is not ready (%s): %s. What runs there is not known to the API.", in.Node.Name, c.Reason, strings.TrimSuffix(c.Message, ".")),
				Next:  "Pods that do not tolerate it for longer are deleted 300 s after the node became unreachable",
				Fixes: []string{"start the kubelet on the node, or mend its connection", "gantry why pod/" + in.Ref.Name + " again when the node is back"}}
		}
	}
	return nil
}
