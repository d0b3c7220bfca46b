package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
)

// maxHolders bounds the Pods that are named as having what a node lacks.
const maxHolders = 3

// holder is a Pod that has a part of a node's resource, or for which a part is kept.
type holder struct {
	pod    *corev1.Pod
	amount int64
	kept   bool // it is nominated to the node and not bound yet
}

// holders are the Pods that have most of a node's resource first, where the Pod would fit on the
// node were it empty: bound ones, those that are ending too, and those nominated that are not below
// the Pod's priority.
func holders(in In, r journal.NodeRefusal, x journal.Shortage) []holder {
	if in.ClusterContext == nil || x.Requested > x.Available || x.Used == 0 {
		return nil
	}
	var out []holder
	for _, p := range in.ClusterContext.Pods {
		if pod.IsTerminal(p) || in.Pod != nil && p.UID == in.Pod.UID && p.Name == in.Pod.Name {
			continue
		}
		kept := p.Spec.NodeName == "" && p.Status.NominatedNodeName == r.Node && pod.Priority(p) >= pod.Priority(in.Pod)
		if !kept && p.Spec.NodeName != r.Node {
			continue
		}
		n := int64(1)
		if x.Resource != string(corev1.ResourcePods) {
			n = requestOf(p, corev1.ResourceName(x.Resource))
		}
		if n > 0 {
			out = append(out, holder{p, n, kept})
		}
	}
	slices.SortStableFunc(out, func(a, b holder) int {
		return cmp.Or(cmp.Compare(b.amount, a.amount), strings.Compare(a.pod.Name, b.pod.Name))
	})
	return out
}

// requestOf is what a Pod requests of a resource, cpu in thousandths.
func requestOf(p *corev1.Pod, name corev1.ResourceName) int64 {
	q := pod.Requests(p)[name]
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// whoHolds tells who has what a node lacks for the Pod, and why none of it is taken from them.
func whoHolds(in In, r journal.NodeRefusal) (text string, who []finding.Object) {
	if r.Plugin == "NodeVolumeLimits" {
		return whoAttached(in, r)
	}
	for _, x := range r.Shortages {
		list := holders(in, r, x)
		if len(list) == 0 {
			continue
		}
		var parts []string
		for _, h := range list[:min(len(list), maxHolders)] {
			parts = append(parts, h.text(in, x))
			who = append(who, finding.Object{Kind: "Pod", Namespace: h.pod.Namespace, Name: h.pod.Name})
		}
		if more := len(list) - maxHolders; more > 0 {
			parts = append(parts, fmt.Sprintf("and %d more Pods", more))
		}
		text += fmt.Sprintf(" Of its %s, %s.", x.Resource, strings.Join(parts, ", "))
		if len(list) <= maxHolders {
			text += notPreempted(in, x, list)
		}
	}
	return text, who
}

func (h holder) text(in In, x journal.Shortage) string {
	name := h.pod.Name
	if h.pod.Namespace != in.Ref.Namespace {
		name = h.pod.Namespace + "/" + name
	}
	s := fmt.Sprintf("%s has %s", name, amount(x.Resource, h.amount))
	if n := pod.Priority(h.pod); n != pod.Priority(in.Pod) {
		s += fmt.Sprintf(" (priority %d)", n)
	}
	switch {
	case h.kept:
		return fmt.Sprintf("%s is kept for %s (priority %d), which is nominated to the node",
			amount(x.Resource, h.amount), name, pod.Priority(h.pod))
	case h.pod.DeletionTimestamp != nil:
		return s + " and is ending"
	default:
		return s
	}
}

// notPreempted says why a Pod that may preempt takes nothing from those that hold a resource.
func notPreempted(in In, x journal.Shortage, list []holder) string {
	own := pod.Priority(in.Pod)
	var below int64
	for _, h := range list {
		if h.kept || h.pod.DeletionTimestamp != nil {
			return "" // room is being made
		}
		if pod.Priority(h.pod) < own {
			below += h.amount
		}
	}
	free := max(x.Available-x.Used, 0)
	switch {
	case in.Pod.Spec.PreemptionPolicy != nil && *in.Pod.Spec.PreemptionPolicy == corev1.PreemptNever:
		return ""
	case below == 0:
		return fmt.Sprintf(" None of them is below this Pod's priority %d, so none is preempted for it.", own)
	case free+below < x.Requested:
		return fmt.Sprintf(" Pods below this Pod's priority %d have %s of it: without them it would still lack %s, so "+
			"none is preempted.", own, amount(x.Resource, below), amount(x.Resource, x.Requested-free-below))
	}
	return ""
}

// neverPreempts is that a Pod's own class forbids it to take room that it could take.
func neverPreempts(in In, v whatif.Victims) finding.Finding {
	f := finding.Finding{Code: "PreemptionForbidden", Severity: finding.Threat, Stage: finding.StagePlacement,
		Object: in.object(), Field: "spec.preemptionPolicy", Value: string(corev1.PreemptNever),
		Want:    string(corev1.PreemptLowerPriority),
		Numbers: map[string]string{"priority": fmt.Sprint(pod.Priority(in.Pod))}}
	var names []string
	for _, p := range v.Pods {
		names = append(names, fmt.Sprintf("%s (priority %d)", p.Name, pod.Priority(p)))
		f.Related = append(f.Related, finding.Object{Kind: "Pod", Namespace: p.Namespace, Name: p.Name})
	}
	f.Related = append(f.Related, finding.Object{Kind: "Node", Name: v.Node})
	f.Message = fmt.Sprintf("Without %s there would be room on %s, and the Pod never preempts (preemptionPolicy "+
		"Never).",
		joinList(names), v.Node)
	class := in.Pod.Spec.PriorityClassName
	if class == "" {
		return f
	}
	f.Related = append(f.Related, in.object())
	f.Object, f.Field = finding.Object{Kind: "PriorityClass", Name: class}, "preemptionPolicy"
	f.Message = fmt.Sprintf("Without %s there would be room on %s, and class %s lets its Pods never preempt "+
		"(preemptionPolicy Never).", joinList(names), v.Node, class)
	f.Remedies = []finding.Remedy{{Say: fmt.Sprintf("make class %s anew with preemptionPolicy PreemptLowerPriority, "+
		"and then the Pod: %s ends for it", class, joinList(names)), Run: []string{remadeClass(class, f.Want)}}}
	return f
}

// remadeClass makes a priority class anew with another policy, which cannot be changed in place.
func remadeClass(class, policy string) string {
	return fmt.Sprintf(`kubectl get priorityclass %s -o json | kubectl patch --local -f - --type=merge -p `+
		`'{"preemptionPolicy":"%s"}' -o json | kubectl replace --force -f -`, class, policy)
}

// waitsForVictim is that a Pod for which another had to go waits for that one's end.
func waitsForVictim(in In, victim *corev1.Pod, grace int64, left time.Duration) finding.Finding {
	f := finding.Finding{Code: "WaitsForVictim", Severity: finding.Note, Stage: finding.StagePlacement,
		Object: finding.Object{Kind: "Pod", Namespace: victim.Namespace, Name: victim.Name},
		Field:  "spec.terminationGracePeriodSeconds", Value: fmt.Sprint(grace),
		Related: []finding.Object{in.object()}, Numbers: map[string]string{"graceSeconds": fmt.Sprint(grace),
			"left": left.Round(time.Second).String()},
		Message: fmt.Sprintf("Pod %s was preempted for this Pod and still holds its room: it ends within its grace "+
			"period of %d s, of which %s are left.", victim.Name, grace, left.Round(time.Second)),
		Remedies: []finding.Remedy{{Say: "end it now, if losing what it still does is acceptable", Run: []string{
			fmt.Sprintf("kubectl -n %s delete pod %s --grace-period=1 --wait=false", victim.Namespace, victim.Name)}}}}
	if left > time.Minute {
		f.Severity = finding.Threat
	}
	return f
}
