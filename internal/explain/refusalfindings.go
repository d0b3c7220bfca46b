package explain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/journal"
	nodeutil "github.com/gantry-project/gantry/internal/node"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/pod/fit"
)

// refusalFindings are the refusals of nodes as data: one finding for each plugin and field, with
// the field's content, the nodes and, where something is short, the numbers of the nearest node.
// Beside it stands what of the node itself refuses.
func refusalFindings(in In, refusals []journal.NodeRefusal) []finding.Finding {
	var out, nodes []finding.Finding
	at := map[string]int{}
	_, rest := in.chosen(refusals)
	for _, r := range refusals {
		var j refusalField
		if judge := refusalFields[r.Plugin]; judge != nil {
			j = judge(in, r)
		}
		key := r.Plugin + j.field + j.object.String()
		i, known := at[key]
		if !known {
			i = len(out)
			at[key] = i
			out = append(out, refusalFinding(in, r, j))
			if slices.ContainsFunc(rest, func(x journal.NodeRefusal) bool { return x.Node == r.Node }) {
				out[i].Severity = finding.Note // the Pod itself does not choose the node
			}
		}
		out[i].Related = append(out[i].Related, finding.Object{Kind: "Node", Name: r.Node})
		if out[i].Severity != finding.Note {
			nodes = append(nodes, nodeRefuses(in, r)...)
		}
	}
	for i := range out {
		n := slices.DeleteFunc(slices.Clone(out[i].Related), func(o finding.Object) bool { return o.Kind != "Node" })
		out[i].Numbers["nodes"] = strconv.Itoa(len(slices.CompactFunc(n, func(a,
			b finding.Object) bool {
			return a == b
		})))
		out[i].Related = slices.Compact(out[i].Related)
	}
	return append(out, nodes...)
}

// refusalFinding is one refusal with the field that it was decided by.
func refusalFinding(in In, r journal.NodeRefusal, j refusalField) finding.Finding {
	f := finding.Finding{Code: r.Plugin, Stage: finding.StagePlacement, Object: j.object, Field: j.field,
		Value: j.value,
		Want:  j.want, Related: j.related, Numbers: map[string]string{}, Message: refusalText(r, in) + "."}
	if f.Object.Kind == "" {
		f.Object = in.object()
	} else {
		f.Related = append(f.Related, in.object())
	}
	maps.Copy(f.Numbers, j.numbers)
	for _, x := range r.Shortages {
		free := max(x.Available-x.Used, 0)
		f.Numbers[x.Resource+".requested"] = amount(x.Resource, x.Requested)
		f.Numbers[x.Resource+".free"] = amount(x.Resource, free)
		f.Numbers[x.Resource+".allocatable"] = amount(x.Resource, x.Available)
		f.Numbers[x.Resource+".short"] = amount(x.Resource, x.Requested-free)
	}
	text, who := whoHolds(in, r)
	f.Message, f.Related = f.Message+text, append(f.Related, who...)
	if n := in.ClusterContext.node(r.Node); n != nil && r.Plugin == "TaintToleration" {
		var taints []string
		for _, t := range n.Spec.Taints {
			taints = append(taints, t.ToString())
		}
		f.Numbers["taints"] = strings.Join(taints, " ")
	}
	return f
}

// nodeRefuses is the field of the node that refuses: its cordon or its taints.
func nodeRefuses(in In, r journal.NodeRefusal) []finding.Finding {
	n := in.ClusterContext.node(r.Node)
	if n == nil {
		return nil
	}
	f := finding.Finding{Severity: finding.Threat, Stage: finding.StageNode,
		Object: finding.Object{Kind: "Node", Name: n.Name}, Related: []finding.Object{in.object()}}
	switch r.Plugin {
	case "NodeUnschedulable":
		f.Code, f.Field, f.Value, f.Want = "Cordoned", "spec.unschedulable", "true", "false"
		f.Message = fmt.Sprintf("Node %s is cordoned (spec.unschedulable): it takes no new Pods until somebody "+
			"uncordons it.", n.Name)
		f.Remedies = []finding.Remedy{{Say: "let it take Pods again", Run: []string{"kubectl uncordon " + n.Name}}}
		return []finding.Finding{f}
	case "TaintToleration":
		for i, t := range n.Spec.Taints {
			if t.Effect == corev1.TaintEffectPreferNoSchedule || fit.Tolerates(in.Pod.Spec.Tolerations, &t) {
				continue
			}
			if cond := conditionOfTaint(n, t.Key); cond != nil {
				return []finding.Finding{ownTaint(f, n, t, *cond)}
			}
			if m, ok := whatif.ManagedTaintOf(t.Key); ok {
				f.Code = "Tainted"
				f.Field, f.Value = fmt.Sprintf("spec.taints[%d]", i), t.ToString()
				f.Message = fmt.Sprintf("Node %s has the taint %s, as %s: it is taken off when that has passed.",
					n.Name,
					t.ToString(), m.Since)
				f.Remedies = []finding.Remedy{{Say: m.Fix}}
				return []finding.Finding{f}
			}
			f.Code, f.Severity = "Tainted", finding.Note
			f.Field, f.Value = fmt.Sprintf("spec.taints[%d]", i), t.ToString()
			f.Message = fmt.Sprintf("Node %s has the taint %s: only Pods that tolerate it run there.", n.Name,
				t.ToString())
			f.Remedies = []finding.Remedy{{Say: "take the taint off the node", Run: []string{fmt.Sprintf(
				"kubectl taint node %s %s:%s-", n.Name, t.Key, t.Effect)}}}
			return []finding.Finding{f}
		}
	}
	return nil
}

// taintConditions are the conditions of a node for which its controller sets taints, by key.
var taintConditions = map[string]corev1.NodeConditionType{corev1.TaintNodeNotReady: corev1.NodeReady,
	corev1.TaintNodeUnreachable: corev1.NodeReady, corev1.TaintNodeMemoryPressure: corev1.NodeMemoryPressure,
	corev1.TaintNodeDiskPressure: corev1.NodeDiskPressure, corev1.TaintNodePIDPressure: corev1.NodePIDPressure,
	corev1.TaintNodeNetworkUnavailable: corev1.NodeNetworkUnavailable}

// conditionOfTaint is the condition for which a node has a taint; nil where somebody set it.
func conditionOfTaint(n *corev1.Node, key string) *corev1.NodeCondition {
	typ := taintConditions[key]
	c := nodeutil.Condition(n, typ)
	if c == nil || (c.Status == corev1.ConditionTrue) == (typ == corev1.NodeReady) {
		return nil
	}
	return c
}

// ownTaint is a taint that a node's controller set for a condition: the condition is to blame, and
// a taint that is taken off comes back. f has the node and the Pod.
func ownTaint(f finding.Finding, n *corev1.Node, t corev1.Taint, c corev1.NodeCondition) finding.Finding {
	f.Code, f.Field, f.Value = "NodeCondition", fmt.Sprintf("status.conditions[%s]", c.Type), c.Reason
	mend := fmt.Sprintf("mend on node %s what its kubelet reports", n.Name)
	if c.Type == corev1.NodeReady {
		f.Code = "NodeNotReady"
		if c.Status == corev1.ConditionUnknown {
			f.Code = "NodeSilent"
			mend = fmt.Sprintf("start the kubelet on node %s, or mend its connection to the API server", n.Name)
		}
	}
	f.Message = fmt.Sprintf("Node %s has %s %s (%s): %s. For that it has the taint %s, which goes by itself.", n.Name,
		c.Type, c.Status, c.Reason, strings.TrimSuffix(c.Message, "."), t.ToString())
	f.Remedies = []finding.Remedy{{Say: mend + "; the taint comes back while it is so"}}
	return f
}

// taintReasons says, after the taints of a node, for which of its conditions its controller set
// them; empty where it set none.
func taintReasons(n *corev1.Node) string {
	var parts []string
	for _, t := range n.Spec.Taints {
		c := conditionOfTaint(n, t.Key)
		if c == nil {
			continue
		}
		words := strings.TrimSuffix(c.Reason+": "+strings.TrimSuffix(oneLine(c.Message), "."), ": ")
		part := fmt.Sprintf("%s is %s (%s)", c.Type, c.Status, words)
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ", for its " + strings.Join(parts, ", and its ")
}

// toleratesByClass says of a Pod without requests that those with some tolerate the pressure of a
// node's memory, and how to be one; the text has a space before it.
func toleratesByClass(in In, refusals []journal.NodeRefusal) (text string, fixes []Fix) {
	if pod.QOS(in.Pod) != corev1.PodQOSBestEffort || len(in.Pod.Spec.Containers) == 0 {
		return "", nil
	}
	for _, r := range refusals {
		n := in.ClusterContext.node(r.Node)
		if r.Plugin != "TaintToleration" || n == nil || !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == corev1.TaintNodeMemoryPressure
		}) {
			continue
		}
		name := in.Pod.Spec.Containers[0].Name
		return fmt.Sprintf(" Its QoS class is BestEffort; Pods of the other classes tolerate %s by themselves.",
				corev1.TaintNodeMemoryPressure), []Fix{editedContainer(in, name, fmt.Sprintf("let it be Burstable "+
				"by a request of memory: it may then go to node %s, which is short of memory, and is evicted there "+
				"after those without request", r.Node), func(x *corev1.Container) {
				if x.Resources.Requests == nil {
					x.Resources.Requests = corev1.ResourceList{}
				}
				x.Resources.Requests[corev1.ResourceMemory] = binaryQuantity(64 << 20)
			})}
	}
	return "", nil
}
