package finding

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/pod/fit"
)

// node finds what keeps a node from taking Pods.
func node(c *Cluster, o metav1.Object, self Object) []Finding {
	n, ok := o.(*corev1.Node)
	if !ok {
		return nil
	}
	var out []Finding
	for _, cond := range n.Status.Conditions {
		switch {
		case cond.Type == corev1.NodeReady && cond.Status != corev1.ConditionTrue:
			out = append(out, notReady(c, n, cond, self))
		case cond.Type != corev1.NodeReady && cond.Status == corev1.ConditionTrue:
			out = append(out, Finding{Code: "NodeCondition", Severity: Threat, Stage: StageNode, Object: self,
				Field: "status.conditions", Value: string(cond.Type),
				Message: fmt.Sprintf("Node %s has %s since %s (%s): %s", self.Name, cond.Type,
					c.Now.Sub(cond.LastTransitionTime.Time).Round(time.Second), cond.Reason, cond.Message)})
		}
	}
	if n.Spec.Unschedulable {
		out = append(out, Finding{Code: "Cordoned", Severity: Threat, Stage: StageNode, Object: self,
			Field: "spec.unschedulable", Value: "true", Want: "false",
			Message: fmt.Sprintf("Node %s is cordoned (spec.unschedulable): it takes no new Pods until somebody "+
				"uncordons it.%s", self.Name, c.whoWaits(n)),
			Remedies: []Remedy{{Say: "let it take Pods again", Run: []string{"kubectl uncordon " + self.Name}}}})
	}
	for i, t := range n.Spec.Taints {
		if t.Effect == corev1.TaintEffectPreferNoSchedule || strings.HasPrefix(t.Key, "node.kubernetes.io/") ||
			strings.HasPrefix(t.Key, "node-role.kubernetes.io/") {
			continue
		}
		out = append(out, Finding{Code: "Tainted", Severity: Note, Stage: StageNode, Object: self,
			Field: fmt.Sprintf("spec.taints[%d]", i), Value: t.ToString(),
			Message: fmt.Sprintf("Node %s has the taint %s: only Pods that tolerate it run there.", self.Name,
				t.ToString())})
	}
	return out
}

// notReady says whether the kubelet is silent or reports its own trouble.
func notReady(c *Cluster, n *corev1.Node, cond corev1.NodeCondition, self Object) Finding {
	f := Finding{Code: "NodeNotReady", Stage: StageNode, Object: self, Field: "status.conditions",
		Value: cond.Reason, Numbers: map[string]string{
			"since": c.Now.Sub(cond.LastTransitionTime.Time).Round(time.Second).String()}}
	if cond.Status == corev1.ConditionFalse {
		f.Message = fmt.Sprintf("Node %s is not ready (%s): its kubelet runs and reports: %s", n.Name, cond.Reason,
			strings.TrimSuffix(cond.Message, ".")+".")
		f.Remedies = []Remedy{{Say: "mend on the node what its kubelet reports: " + cond.Message}}
		return f
	}
	f.Code = "NodeSilent"
	f.Message = fmt.Sprintf("Node %s is silent: its kubelet last reported %s ago.", n.Name,
		c.Now.Sub(cond.LastHeartbeatTime.Time).Round(time.Second))
	if cond.Reason == "NodeStatusNeverUpdated" || cond.LastHeartbeatTime.IsZero() {
		f.Message = fmt.Sprintf("Node %s is silent: it was made %s ago, and no kubelet has ever reported for it.",
			n.Name, c.Now.Sub(n.CreationTimestamp.Time).Round(time.Second))
	}
	if l, ok := get[*coordinationv1.Lease](c, "Lease", corev1.NamespaceNodeLease, n.Name); ok &&
		l.Spec.RenewTime != nil {
		age := c.Now.Sub(l.Spec.RenewTime.Time).Round(time.Second)
		f.Related = append(f.Related, objectOf("Lease", l))
		f.Numbers["lease"] = age.String()
		f.Message += fmt.Sprintf(" Its lease was renewed %s ago.", age)
	}
	f.Remedies = []Remedy{{Say: "start the kubelet on the node, or mend its connection to the API server"},
		{Say: "when the machine is off for good, let its Pods start elsewhere",
			Run: []string{fmt.Sprintf("kubectl taint node %s node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
				n.Name)}}}
	return f
}

// componentLeases are the leases of leader election in kube-system, and what stands still without.
var componentLeases = map[string]string{"kube-scheduler": "no Pod is placed",
	"kube-controller-manager": "no controller acts"}

// componentLease finds a component whose lease was released or has run out.
func componentLease(c *Cluster, o metav1.Object, self Object) []Finding {
	l, ok := o.(*coordinationv1.Lease)
	without, known := componentLeases[self.Name]
	if !ok || !known || l.Namespace != metav1.NamespaceSystem || l.Spec.RenewTime == nil {
		return nil
	}
	seconds := int32(15)
	if l.Spec.LeaseDurationSeconds != nil {
		seconds = *l.Spec.LeaseDurationSeconds
	}
	age := c.Now.Sub(l.Spec.RenewTime.Time)
	released := l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == ""
	if !released && age < 2*time.Duration(seconds)*time.Second {
		return nil
	}
	how := "has run out"
	if released {
		how = "was released"
	}
	return []Finding{{Code: "ComponentDown", Stage: StageControl, Object: self, Field: "spec.renewTime",
		Value: l.Spec.RenewTime.UTC().Format(time.RFC3339),
		Numbers: map[string]string{"age": age.Round(time.Second).String(),
			"leaseDurationSeconds": fmt.Sprint(seconds)},
		Message: fmt.Sprintf("%s does not run: its lease %s, renewed last %s ago (it is good for %d s). Until it "+
			"runs, %s.", self.Name, how, age.Round(time.Second), seconds, without),
		Remedies: []Remedy{{Say: "start " + self.Name + " (gantry scheduler, gantry controllers, or gantry up)"}}}}
}

// whoWaits says, with a space before it, which Pods without a node are refused for a node's cordon.
func (c *Cluster) whoWaits(n *corev1.Node) string {
	var names []string
	for _, p := range slices.Concat(list[*corev1.Pod](c, "Pod"), c.Others) {
		x := pod.Condition(p, corev1.PodScheduled)
		if p.Spec.NodeName == "" && x != nil && x.Status == corev1.ConditionFalse &&
			strings.Contains(x.Message, "were unschedulable") && !fit.Tolerates(p.Spec.Tolerations, &corev1.Taint{
			Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}) && len(names) < 5 {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(" Pods without a node wait for one that takes them: %s.", strings.Join(names, ", "))
}
