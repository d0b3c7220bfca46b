package finding

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gantry-project/gantry/internal/pod"
)

// draining finds the Pods that keep a cordoned node from being drained: those whose budget allows
// no
// eviction, and those that were deleted and stay. They are broken when the drain has come so far
// that no other Pod is left, or some Pod is on its way out; else they are threats.
func draining(c *Cluster, o metav1.Object, self Object) []Finding {
	n, ok := o.(*corev1.Node)
	if !ok || !n.Spec.Unschedulable {
		return nil
	}
	var out []Finding
	left, going := 0, false
	for _, p := range slices.Concat(list[*corev1.Pod](c, "Pod"), c.Others) {
		if p.Spec.NodeName != n.Name || staysInDrain(p) {
			continue
		}
		at := objectOf("Pod", p)
		switch {
		case p.DeletionTimestamp != nil && len(p.Finalizers) > 0:
			going = true
			out = append(out, Finding{Code: "DrainHeld", Stage: StageChange, Object: at,
				Field: "metadata.finalizers[0]",
				Value: p.Finalizers[0], Related: []Object{self}, Message: fmt.Sprintf("Pod %s on node %s was "+
					"deleted or evicted, and its finalizer %s keeps the object: a drain of the node waits until "+
					"that is removed.",
					p.Name, n.Name, joined(p.Finalizers)), Remedies: finalizerRemedies(at, p.Finalizers)})
		case p.DeletionTimestamp != nil:
			going = true
			f := Finding{Code: "DrainHeld", Severity: Note, Stage: StageChange, Object: at,
				Field: "spec.terminationGracePeriodSeconds", Related: []Object{self}, Message: fmt.Sprintf("Pod %s "+
					"on node %s is ending: a drain waits for it.", p.Name, n.Name)}
			c.describeTermination(&f, p)
			out = append(out, f)
		case pod.IsTerminal(p):
		default:
			held := c.refusesEviction(p, self)
			if len(held) == 0 {
				left++
			}
			out = append(out, held...)
		}
	}
	for i := range out {
		if out[i].Severity != Note && left > 0 && !going {
			out[i].Severity = Threat
		}
	}
	return out
}

// staysInDrain reports whether a drain leaves a Pod where it is: a DaemonSet's, and a static one.
func staysInDrain(p *corev1.Pod) bool {
	r := metav1.GetControllerOf(p)
	return pod.IsMirror(p) || r != nil && r.Kind == "DaemonSet"
}

// refusesEviction are the budgets that let a Pod not be evicted now, each with its Pod.
func (c *Cluster) refusesEviction(p *corev1.Pod, node Object) []Finding {
	var out []Finding
	for _, b := range in[*policyv1.PodDisruptionBudget](c, "PodDisruptionBudget", p.Namespace) {
		s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || !s.Matches(labels.Set(p.Labels)) || b.Status.DisruptionsAllowed > 0 {
			continue
		}
		for _, f := range budget(c, b, objectOf("PodDisruptionBudget", b)) {
			if f.Code == "BudgetsOverlap" {
				continue
			}
			f.Code, f.Severity, f.Related = "DrainHeld", Broken, append(f.Related, objectOf("Pod", p), node)
			f.Message = fmt.Sprintf("Pod %s may not be evicted from node %s, as disruptionsAllowed is %d: %s", p.Name,
				node.Name, b.Status.DisruptionsAllowed, f.Message)
			f.Remedies = append(c.oneMore(p, b), f.Remedies...)
			out = append(out, f)
			break
		}
	}
	return out
}

// oneMore lets a budget with a number of Pods that have to be there allow an eviction: by one Pod
// more.
func (c *Cluster) oneMore(p *corev1.Pod, b *policyv1.PodDisruptionBudget) []Remedy {
	owner := c.outermost(p, objectOf("Pod", p))
	if b.Spec.MinAvailable == nil || !slices.Contains([]string{"Deployment", "StatefulSet", "ReplicaSet"}, owner.Kind) {
		return nil
	}
	if int(b.Spec.MinAvailable.IntVal) != int(b.Status.ExpectedPods) || b.Spec.MinAvailable.StrVal != "" {
		return nil
	}
	n := b.Status.ExpectedPods + 1
	return []Remedy{{Say: fmt.Sprintf("run one Pod more for the time of the drain: %d replicas, of which one may "+
		"be away", n),
		Run: []string{fmt.Sprintf("kubectl -n %s scale %s/%s --replicas=%d", owner.Namespace, owner.lower(),
			owner.Name, n), fmt.Sprintf("kubectl -n %s wait pdb/%s --for=jsonpath={.status.disruptionsAllowed}=1 "+
			"--timeout=60s",
			b.Namespace, b.Name)}}}
}
