package finding

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namespaceEnding finds what keeps a namespace from going.
func namespaceEnding(c *Cluster, o metav1.Object, self Object) []Finding {
	n, ok := o.(*corev1.Namespace)
	if !ok || n.DeletionTimestamp == nil {
		return nil
	}
	f := Finding{Code: "NamespaceTerminating", Stage: StageChange, Object: self, Field: "spec.finalizers",
		Message: fmt.Sprintf("Namespace %s is being deleted, and goes when everything in it has gone.", self.Name)}
	for _, cond := range n.Status.Conditions {
		if cond.Status == corev1.ConditionTrue {
			f.Message += fmt.Sprintf(" %s: %s", cond.Type, strings.TrimSuffix(cond.Message, ".")+".")
			f.Value = string(cond.Type)
		}
	}
	for _, kind := range c.sortedKinds() {
		for _, x := range c.Objects[kind] {
			if x.GetNamespace() == n.Name && len(x.GetFinalizers()) > 0 && x.GetDeletionTimestamp() != nil {
				held := objectOf(kind, x)
				f.Related = append(f.Related, held)
				f.Message += fmt.Sprintf(" %s %s is held by %s.", kind, x.GetName(), joined(x.GetFinalizers()))
				f.Remedies = append(f.Remedies, finalizerRemedies(held, x.GetFinalizers())...)
			}
		}
	}
	return []Finding{f}
}

// ownFinalizers are those that a controller of Kubernetes removes when it is time.
var ownFinalizers = []string{"kubernetes.io/pvc-protection", "kubernetes.io/pv-protection", "foregroundDeletion",
	"orphan", "batch.kubernetes.io/job-tracking", "service.kubernetes.io/load-balancer-cleanup", "kubernetes"}

// heldByFinalizer finds an object that is being deleted and that finalizers hold.
func heldByFinalizer(c *Cluster, o metav1.Object, self Object) []Finding {
	if o.GetDeletionTimestamp() == nil || len(o.GetFinalizers()) == 0 || self.Kind == "Pod" ||
		c.Now.Sub(o.GetDeletionTimestamp().Time) < settleTime/2 {
		return nil
	}
	return []Finding{{Code: "FinalizerHolds", Stage: StageChange, Object: self, Field: "metadata.finalizers",
		Value: strings.Join(o.GetFinalizers(), ","),
		Message: fmt.Sprintf("%s %s is being deleted and is held by %s: whoever set that has to remove it.", self.Kind,
			self.Name, joined(o.GetFinalizers())), Remedies: finalizerRemedies(self, o.GetFinalizers())}}
}

// finalizerRemedies remove foreign finalizers by hand, and say what that costs.
func finalizerRemedies(o Object, finalizers []string) []Remedy {
	if !slices.ContainsFunc(finalizers, func(s string) bool { return !slices.Contains(ownFinalizers, s) }) {
		return nil
	}
	own := slices.DeleteFunc(slices.Clone(finalizers),
		func(s string) bool { return !slices.Contains(ownFinalizers, s) })
	raw, _ := json.Marshal(slices.Concat([]string{}, own)) // strings always marshal
	return []Remedy{
		{Say: "let its controller finish; or remove the finalizers by hand: what they wait for is then not done",
			Run: []string{kubectl(o, "patch", fmt.Sprintf(`--type=merge -p '{"metadata":{"finalizers":%s}}'`, raw))}}}
}
