package explain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// maxNodesShown bounds the nodes listed one by one, maxRefusalsShown those named in the cause.
const (
	maxNodesShown    = 20
	maxRefusalsShown = 4
)

// searchTimeout bounds the search for remedies.
const searchTimeout = 3 * time.Second

func schedulingGated(in In) *Answer {
	if in.Pod == nil || len(in.Pod.Spec.SchedulingGates) == 0 || in.Pod.Spec.NodeName != "" {
		return nil
	}
	var names []string
	for _, g := range in.Pod.Spec.SchedulingGates {
		names = append(names, g.Name)
	}
	return &Answer{State: "SchedulingGated", Since: in.Pod.CreationTimestamp.Time,
		Cause: fmt.Sprintf("The Pod has scheduling gates (%s): the scheduler does not look at it until whoever set "+
			"them removes them.", strings.Join(names, ", ")),
		Fixes: []Fix{commandFix("remove the gates by hand",
			fmt.Sprintf(`kubectl -n %s patch pod %s --type=json -p '[{"op":"remove","path":"/spec/schedulingGates"}]'`,
				in.Ref.Namespace, in.Ref.Name))}}
}

func unscheduled(in In) *Answer {
	if in.Pod == nil || in.Pod.Spec.NodeName != "" {
		return nil
	}
	a := &Answer{State: "Pending", Since: in.Pod.CreationTimestamp.Time}
	result, at, known := newest[journal.Ruled](in, nil)
	if failed, when, ok := newest[journal.BindFailed](in, nil); ok && when.After(at) {
		a.Cause = fmt.Sprintf("A node was chosen (%s), but the binding failed in %s: %s.", failed.Node, failed.Point,
			strings.TrimSuffix(failed.Error, "."))
		a.Next = "the scheduler tries again after its back-off"
		return a
	}
	switch {
	case known && result.Winner != "":
		a.Cause = fmt.Sprintf("Node %s was chosen; the binding is under way.", result.Winner)
		a.causedAt = []finding.Stage{finding.StageReference, finding.StageVolume}
		return a
	case in.Pod.Status.NominatedNodeName != "":
		return nominated(a, in)
	case known || in.ClusterContext != nil && in.ClusterContext.Plugins != nil &&
		pod.Condition(in.Pod, corev1.PodScheduled) != nil:
		nodesRefused(a, in, result)
	default:
		notAttempted(a, in)
		return a
	}
	if q, when, ok := newest[journal.Queued](in, nil); ok && (known && !when.Before(at) || q.Queue != "active") {
		a.Facts = append(a.Facts, "stands in the scheduler's "+q.Queue+" queue because of "+q.Cause)
	}
	return a
}

// nominated explains a Pod that waits for its victims to end.
func nominated(a *Answer, in In) *Answer {
	node := in.Pod.Status.NominatedNodeName
	var victims []string
	var leaving time.Duration
	remedies, refusals := tryRemedies(in)
	for _, p := range in.victims(node, refusals) {
		grace := int64(pod.DeletionGracePeriod(p) / time.Second)
		left := max(p.DeletionTimestamp.Sub(in.Now), 0)
		leaving = max(leaving, left)
		a.Findings = append(a.Findings, waitsForVictim(in, p, grace, left))
		victims = append(victims,
			fmt.Sprintf("%s (priority %d) is terminating since %s ago with a grace period of %ds, %s of it left",
				p.Name, pod.Priority(p),
				ago(in.Now.Sub(p.DeletionTimestamp.Add(-secondsOf(grace)))), grace, ago(left)))
		a.Fixes = append(a.Fixes, commandFix("end "+p.Name+" now, if losing what it still does is acceptable",
			fmt.Sprintf("kubectl -n %s delete pod %s --grace-period=1", p.Namespace, p.Name)))
	}
	if len(victims) == 0 {
		if f, _, ok := newest[journal.Preempting](in, nil); ok {
			victims = append(victims, f.Line())
		}
	}
	a.Cause = fmt.Sprintf("Preemption is done: the Pod (priority %d) is nominated to %s and waits until its room is "+
		"free: %s.", pod.Priority(in.Pod), node, strings.Join(victims, "; "))
	if len(victims) == 0 {
		a.Cause = fmt.Sprintf("The Pod is nominated to %s: others were asked to leave for it, and the scheduler "+
			"places it at its next attempt.", node)
	}
	a.Next = fmt.Sprintf("the Pod is placed on %s when they are gone, in %s at the latest", node, ago(leaving))
	for _, r := range refusals {
		if r.Node == node {
			a.Facts = append(a.Facts, refusalText(r, in))
		}
	}
	for _, r := range remedies {
		if r.Kind != "pod" {
			a.Fixes = append(a.Fixes, provenFix(r))
		}
	}
	return a
}

// victims are the Pods whose end a nominated Pod waits for: they are being deleted, run yet, are of
// lower priority, and have of what the node is short. Where some were asked to leave by a scheduler
// and the node is short of nothing that is counted, only they are.
func (in In) victims(node string, refusals []journal.NodeRefusal) []*corev1.Pod {
	var short []journal.Shortage
	if i := slices.IndexFunc(refusals, func(r journal.NodeRefusal) bool { return r.Node == node }); i >= 0 {
		short = refusals[i].Shortages
	}
	out := slices.DeleteFunc(in.ClusterContext.podsOn(node), func(p *corev1.Pod) bool {
		return p.DeletionTimestamp == nil || pod.IsTerminal(p) || pod.Priority(p) >= pod.Priority(in.Pod) ||
			len(short) > 0 && !slices.ContainsFunc(short, func(x journal.Shortage) bool {
				q := pod.Requests(p)[corev1.ResourceName(x.Resource)]
				return x.Resource == string(corev1.ResourcePods) || q.Sign() > 0
			})
	})
	asked := slices.DeleteFunc(slices.Clone(out), func(p *corev1.Pod) bool {
		c := pod.Condition(p, corev1.DisruptionTarget)
		return c == nil || c.Reason != corev1.PodReasonPreemptionByScheduler
	})
	if len(short) == 0 && len(asked) > 0 {
		return asked
	}
	return out
}

// podsOn returns the Pods bound to a node.
func (c *ClusterContext) podsOn(node string) []*corev1.Pod {
	if c == nil {
		return nil
	}
	var out []*corev1.Pod
	for _, p := range c.Pods {
		if p.Spec.NodeName == node {
			out = append(out, p)
		}
	}
	return out
}

// tryRemedies runs the scheduler's plugins on the current cluster, and searches for remedies.
func tryRemedies(in In) ([]whatif.Remedy, []journal.NodeRefusal) {
	if in.ClusterContext == nil || in.ClusterContext.Plugins == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), searchTimeout)
	defer cancel()
	w := in.whatifInput()
	w.Together = in.waitingBeside()
	return whatif.FindRemedies(ctx, w)
}

// whatifInput returns the input of package whatif for this Pod.
func (in In) whatifInput() whatif.In {
	w := whatif.In{Pod: in.Pod.DeepCopy(), Snapshot: snapshot.Of(in.ClusterContext.Nodes, in.ClusterContext.Pods),
		Plugins: in.ClusterContext.Plugins, WithoutPods: in.ClusterContext.WithoutPods, Owner: whatif.OwnerOf(in.Pod),
		Classes: map[string]whatif.Priority{}}
	w.Pod.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	for _, c := range in.ClusterContext.Classes {
		w.Classes[c.Name] = whatif.Priority{Value: c.Value,
			Never: c.PreemptionPolicy != nil && *c.PreemptionPolicy == corev1.PreemptNever}
	}
	return w
}

// nodesRefused lists every node's refusal with numbers, closest first, and remedies.
func nodesRefused(a *Answer, in In, r journal.Ruled) {
	a.Next = "the Pod is tried again when a node, a Pod or a volume changes in a way that can help"
	remedies, refusals := tryRemedies(in)
	if len(refusals) == 0 {
		refusals = slices.Clone(r.Refusals)
	}
	if len(refusals) == 0 {
		text := r.Message
		if c := pod.Condition(in.Pod, corev1.PodScheduled); text == "" && c != nil {
			text = c.Message
		}
		// what follows is of preemption, which found no node to ask about
		a.Cause = "No node fits: " + strings.TrimSuffix(strings.TrimSuffix(text, "."), ". not found") + "."
		if r.By != "" {
			a.Cause = fmt.Sprintf("%s refused the Pod before nodes were judged: %s", r.By, text)
			a.causedAt = refusedAt[r.By]
		}
		claimMissing(a, in, text)
	} else {
		slices.SortStableFunc(refusals, compareRefusals)
		chosen, rest := in.chosen(refusals)
		refusals = slices.Concat(chosen, rest)
		a.Cause, a.refusals = noNodeText(refusals, in), refusals
		text, fixes := toleratesByClass(in, chosen)
		a.Cause, a.Fixes = a.Cause+text, append(a.Fixes, fixes...)
		if resourceMissing(refusals, in) == "" { // else no node is near
			furtherObstacles(a, in, chosen)
		}
		if len(rest) > 0 { // what else there is to the nodes that the Pod rules out is no cause
			var beside Answer
			furtherObstacles(&beside, in, rest)
			a.refusals = append(slices.Clone(a.refusals), beside.refusals...)
		}
	}
	for i, n := range refusals {
		if i == maxNodesShown {
			a.Facts = append(a.Facts, fmt.Sprintf("and %d more nodes", len(refusals)-maxNodesShown))
			break
		}
		fact := refusalText(n, in)
		if text, _ := whoHolds(in, n); text != "" {
			fact += "." + strings.TrimSuffix(text, ".")
		}
		a.Facts = append(a.Facts, fact)
	}
	if text := overhead(in.Pod); text != "" {
		a.Facts = append(a.Facts, text)
	}
	if r.Message != "" {
		a.Facts = append(a.Facts, "the scheduler's words: "+r.Message)
	}
	a.Fixes = append(a.Fixes, in.managedTaintFixes(refusals)...)
	for _, m := range remedies {
		a.Fixes = append(a.Fixes, provenFix(m))
	}
	preemption(a, in)
	if len(remedies) == 0 {
		chosen, _ := in.chosen(refusals)
		if resourceMissing(refusals, in) != "" {
			chosen = slices.DeleteFunc(slices.Clone(chosen),
				func(r journal.NodeRefusal) bool { return len(r.Shortages) == 0 })
		}
		a.Fixes = slices.Concat(a.Fixes, withoutResource(in, chosen), looserSelectors(in, chosen), pluginHints(in,
			chosen))
	}
}

// refusedAt are the stages of findings that say why a plugin refuses a Pod before any node is
// filtered.
var refusedAt = map[string][]finding.Stage{
	"VolumeBinding":    {finding.StageReference, finding.StageVolume},
	"VolumeZone":       {finding.StageReference, finding.StageVolume},
	"DynamicResources": {finding.StageReference},
	"NodeAffinity":     {finding.StagePlacement},
}

// maxObstaclesShown bounds the nodes of which the cause tells every refusal.
const maxObstaclesShown = 3

// furtherObstacles adds what the nearest nodes refuse the Pod for beyond their first refusal.
func furtherObstacles(a *Answer, in In, refusals []journal.NodeRefusal) {
	if in.ClusterContext == nil || in.ClusterContext.Plugins == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), searchTimeout)
	defer cancel()
	w := in.whatifInput()
	seen := map[string]bool{}
	for _, r := range refusals[:min(len(refusals), maxObstaclesShown)] {
		all := whatif.Obstacles(ctx, w, r.Node)
		if len(all) < 2 {
			continue
		}
		var texts []string
		key := ""
		for _, x := range all[1:] {
			texts = append(texts, refusalText(x, in))
			key += groupText(x, in) + x.Detail + "\n"
		}
		a.refusals = append(slices.Clone(a.refusals), all[1:]...)
		if seen[key] {
			continue // another node said so
		}
		seen[key] = true
		a.Cause += fmt.Sprintf(" Were that mended, there is more: %s.", strings.Join(texts, "; "))
	}
}

// overhead describes the overhead of the Pod's RuntimeClass.
func overhead(p *corev1.Pod) string {
	if len(p.Spec.Overhead) == 0 || p.Spec.RuntimeClassName == nil {
		return ""
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(p.Spec.Overhead)) {
		q := p.Spec.Overhead[name]
		parts = append(parts, q.String()+" "+string(name))
	}
	return fmt.Sprintf("what the Pod needs includes the overhead of its RuntimeClass %s: %s", *p.Spec.RuntimeClassName,
		strings.Join(parts, ", "))
}

func compareRefusals(a, b journal.NodeRefusal) int {
	x, y := whatif.Distance(a), whatif.Distance(b)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// pluginHints returns the plugins' own remedies, which were not tried. A taint that stands for a
// node's condition comes back while that is so: nobody is told to take it off.
func pluginHints(in In, refusals []journal.NodeRefusal) []Fix {
	var out []Fix
	seen := map[string]bool{}
	add := func(text string) {
		if !seen[text] && len(out) < 5 {
			seen[text] = true
			out = append(out, Fix{Description: text})
		}
	}
	for _, n := range refusals {
		if r := nodeRefuses(in, n); len(r) > 0 && r[0].Severity == finding.Threat && n.Plugin == "TaintToleration" {
			for _, m := range r[0].Remedies {
				add(m.Say)
			}
			continue
		}
		if n.Fix != "" {
			add(n.Fix + " (then " + n.Node + " fits as far as " + n.Plugin + " goes)")
			continue
		}
		for _, x := range n.Shortages {
			if free := x.Available - x.Used; free > 0 {
				add(fmt.Sprintf("lower the request of %s to %s, or free %s on %s", x.Resource, amount(x.Resource, free),
					amount(x.Resource, x.Requested-free), n.Node))
			}
		}
	}
	return out
}

// preemption explains why the Pod does not preempt others although that would make it fit.
func preemption(a *Answer, in In) {
	if in.ClusterContext == nil || in.ClusterContext.Plugins == nil || in.Pod.Spec.PreemptionPolicy == nil ||
		*in.Pod.Spec.PreemptionPolicy != corev1.PreemptNever {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), searchTimeout)
	defer cancel()
	w := in.whatifInput()
	v := whatif.CheapestVictims(ctx, w)
	if len(v.Pods) == 0 {
		return
	}
	var names []string
	for _, p := range v.Pods {
		names = append(names, fmt.Sprintf("%s (priority %d)", p.Name, pod.Priority(p)))
	}
	from := ""
	if in.Pod.Spec.PriorityClassName != "" {
		from = fmt.Sprintf(" (from its class %s)", in.Pod.Spec.PriorityClassName)
	}
	a.Cause += fmt.Sprintf(" Preempting %s on %s would make room, but the Pod has preemptionPolicy Never%s: nothing "+
		"is evicted for it.", strings.Join(names, " and "), v.Node, from)
	f := neverPreempts(in, v)
	if r, ok := whatif.RaisePriority(w, v); ok {
		a.Fixes = append(a.Fixes, Fix{Description: r.Description, Run: r.Run})
		f.Remedies = append([]finding.Remedy{{Say: r.Description, Run: r.Run}}, f.Remedies...)
	}
	a.Findings = append(a.Findings, f)
}
