package explain

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	nodeutil "github.com/gantry-project/gantry/internal/node"
)

func nodeUnreachableFor(in In) *Answer {
	if in.Pod == nil || in.Pod.Spec.NodeName == "" {
		return nil
	}
	if in.Node == nil {
		return &Answer{State: "lost", Cause: fmt.Sprintf("The Pod is bound to node %s, which does not exist.",
			in.Pod.Spec.NodeName),
			Next:  "the Pod is marked Failed and removed when the node has been missing for 40 s",
			Fixes: textFixes("create the node again, or delete the Pod")}
	}
	c := nodeutil.NotReadyCondition(in.Node)
	if c == nil {
		return nil
	}
	return &Answer{State: "on a node that is not ready", Since: c.LastTransitionTime.Time,
		Cause: fmt.Sprintf("Node %s is not ready (%s): %s. %s", in.Node.Name, c.Reason,
			strings.TrimSuffix(c.Message, "."), kubeletStateText(*c)),
		Next: nextThere(in.Pod, *c), Fixes: notReadyFixes(in, *c)}
}

// nextThere says what becomes of a Pod on a node that is not ready.
func nextThere(p *corev1.Pod, c corev1.NodeCondition) string {
	if p.DeletionTimestamp == nil || c.Status == corev1.ConditionFalse {
		return tolerationText(p, c)
	}
	return "the Pod is being deleted, and stays until its kubelet says that its containers have ended, or its node " +
		"is gone"
}

// kubeletStateText says whether the kubelet of a node that is not ready is silent, or runs and
// reports.
func kubeletStateText(c corev1.NodeCondition) string {
	if c.Status == corev1.ConditionFalse {
		return "Its kubelet runs and reports that itself; containers that run go on running, and the Pod counts as " +
			"not ready."
	}
	return "Its kubelet is silent: what runs there is not known to the API."
}

// notReadyFixes are what helps a node that is not ready, by whether its kubelet reports.
func notReadyFixes(in In, c corev1.NodeCondition) []Fix {
	first := commandFix("start the kubelet on the node, or mend its connection to the API server")
	if c.Status == corev1.ConditionFalse {
		first = seeWhy("mend on the node what its kubelet reports: "+strings.TrimSuffix(c.Message, "."), "Node", "",
			in.Node.Name)
	}
	fixes := []Fix{first, commandFix("ask again when the node is back",
		fmt.Sprintf("gantry why pod/%s -n %s", in.Ref.Name,
			in.Ref.Namespace))}
	if c.Status != corev1.ConditionFalse {
		fixes = append(fixes, commandFix("when the machine is off for good, let its Pods start elsewhere: never while "+
			"it may run, as two Pods could then write to one volume",
			fmt.Sprintf("kubectl taint node %s node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
				in.Node.Name)))
	}
	return fixes
}

// tolerationText says when the Pod is deleted because of its node's state: by its own toleration.
func tolerationText(p *corev1.Pod, c corev1.NodeCondition) string {
	key := corev1.TaintNodeUnreachable
	if c.Status == corev1.ConditionFalse {
		key = corev1.TaintNodeNotReady
	}
	for _, t := range p.Spec.Tolerations {
		if (t.Key == key || t.Key == "" && t.Operator == corev1.TolerationOpExists) &&
			(t.Effect == "" || t.Effect == corev1.TaintEffectNoExecute) {
			if t.TolerationSeconds == nil {
				return fmt.Sprintf("the Pod stays: it tolerates the taint %s for ever", key)
			}
			return fmt.Sprintf("the Pod is deleted when the node has had the taint %s for %d s (tolerationSeconds), "+
				"unless the node is ready before", key, *t.TolerationSeconds)
		}
	}
	return fmt.Sprintf("the Pod is deleted as soon as the node has the taint %s, which it does not tolerate", key)
}
