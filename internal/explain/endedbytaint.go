package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/pod"
)

// endedByTaint is a Pod that was deleted for a taint of its node, with the toleration that was too
// short, as data. ok is false for other Pods, and where the node has no such taint any more.
func endedByTaint(in In) (finding.Finding, bool) {
	p := in.Pod
	if p == nil || in.Node == nil {
		return finding.Finding{}, false
	}
	if c := pod.Condition(p, corev1.DisruptionTarget); c == nil || c.Status != corev1.ConditionTrue ||
		c.Reason != "DeletionByTaintManager" {
		return finding.Finding{}, false
	}
	for i := range in.Node.Spec.Taints {
		t := &in.Node.Spec.Taints[i]
		if t.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		f := finding.Finding{Code: "EndedByTaint", Stage: finding.StageNode, Object: in.object(),
			Field: "spec.tolerations",
			Value: t.ToString(), Related: []finding.Object{{Kind: "Node", Name: in.Node.Name}},
			Numbers: map[string]string{"taint": t.ToString()},
			Message: fmt.Sprintf("The Pod was deleted for the taint %s of node %s, which it does not tolerate.",
				t.ToString(), in.Node.Name),
			Remedies: []finding.Remedy{{Say: "take the taint off the node when its time is over; other Pods may " +
				"then come to it", Run: []string{fmt.Sprintf("kubectl taint node %s %s:%s-", in.Node.Name,
				t.Key, t.Effect)}}}}
		for j, x := range p.Spec.Tolerations {
			if (x.Key != t.Key && x.Key != "") || x.TolerationSeconds == nil || x.Effect != "" && x.Effect != t.Effect {
				continue
			}
			f.Field = fmt.Sprintf("spec.tolerations[%d].tolerationSeconds", j)
			f.Value = fmt.Sprint(*x.TolerationSeconds)
			f.Numbers["tolerationSeconds"] = f.Value
			f.Message = fmt.Sprintf("The Pod was deleted for the taint %s of node %s: it tolerates it for %s s "+
				"(tolerationSeconds) and no longer.", t.ToString(), in.Node.Name, f.Value)
			break
		}
		return f, true
	}
	return finding.Finding{}, false
}
