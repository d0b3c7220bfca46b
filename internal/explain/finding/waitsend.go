package finding

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/workload"
)

// longEnd is what is left of a Pod's grace period that is more than a short wait.
const longEnd = time.Minute

// waitsForOldPod finds a workload that makes a Pod only when one that is being deleted has ended: a
// Deployment that recreates, a StatefulSet for its name, a DaemonSet for its node.
func waitsForOldPod(c *Cluster, o metav1.Object, self Object) []Finding {
	field, value, rule, ending := "", "", "", (*corev1.Pod)(nil)
	switch x := o.(type) {
	case *appsv1.Deployment:
		if x.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || workload.Replicas(x.Spec.Replicas) == 0 ||
			x.Status.UpdatedReplicas > 0 {
			return nil
		}
		field, value, rule = "spec.strategy.type", "Recreate", "strategy Recreate"
		ending = lastEnding(c.podsOf(x), func(*corev1.Pod) bool { return true })
	case *appsv1.StatefulSet:
		first := int32(0)
		if x.Spec.Ordinals != nil {
			first = x.Spec.Ordinals.Start
		}
		ending = lastEnding(owned[*corev1.Pod](c, "Pod", x), func(p *corev1.Pod) bool {
			n, err := strconv.Atoi(strings.TrimPrefix(p.Name, x.Name+"-"))
			return err == nil && int32(n) < first+workload.Replicas(x.Spec.Replicas)
		})
		rule = "its successor has the same name"
	case *appsv1.DaemonSet:
		if r := x.Spec.UpdateStrategy.RollingUpdate; r != nil && r.MaxSurge != nil && r.MaxSurge.IntValue() > 0 {
			return nil
		}
		ending = lastEnding(owned[*corev1.Pod](c, "Pod", x), func(*corev1.Pod) bool { return true })
		rule = "there is one on each node"
	}
	if ending == nil || o.GetDeletionTimestamp() != nil {
		return nil
	}
	grace := graceOf(ending)
	f := Finding{Code: "WaitsForEnd", Severity: Note, Stage: StageChange, Object: self, Field: field, Value: value,
		Related: []Object{objectOf("Pod", ending)}, Numbers: map[string]string{},
		Message: fmt.Sprintf("%s %s makes no new Pod before Pod %s has ended (%s), which is being deleted with a "+
			"grace period of %d s.", self.Kind, self.Name, ending.Name, rule, grace)}
	if field == "" {
		f.Field, f.Value = "spec.template.spec.terminationGracePeriodSeconds", fmt.Sprint(grace)
	}
	c.describeTermination(&f, ending)
	return []Finding{f}
}

// graceOf is the grace period, in seconds, with which a Pod is being deleted.
func graceOf(p *corev1.Pod) int64 {
	if g := p.DeletionGracePeriodSeconds; g != nil {
		return *g
	}
	return 0
}

// describeTermination adds to a finding about a Pod that is waited for how long it may take, and
// what makes it shorter.
func (c *Cluster) describeTermination(f *Finding, ending *corev1.Pod) {
	left := ending.DeletionTimestamp.Sub(c.Now)
	f.Numbers["graceSeconds"] = fmt.Sprint(graceOf(ending))
	f.Numbers["left"] = max(left, 0).Round(time.Second).String()
	if left > longEnd {
		f.Severity = Threat
		f.Message += fmt.Sprintf(" Of its grace period of %d s %s are left, unless its program ends sooner.",
			graceOf(ending), f.Numbers["left"])
	}
	f.Remedies = append(f.Remedies, SeeWhy("let the program end when it is told to (TERM), or see what it does",
		objectOf("Pod", ending)),
		Remedy{Say: "or give it less time: what still runs after 5 s is killed, and loses what it has not saved",
			Run: []string{kubectl(objectOf("Pod", ending), "delete", "--grace-period=5 --wait=false")}})
}

// lastEnding is the Pod that is being deleted and has the longest grace period left, of those that
// count; nil when there is none.
func lastEnding(pods []*corev1.Pod, counts func(*corev1.Pod) bool) *corev1.Pod {
	var out *corev1.Pod
	for _, p := range pods {
		if p.DeletionTimestamp == nil || !counts(p) {
			continue
		}
		if out == nil || out.DeletionTimestamp.Before(p.DeletionTimestamp) {
			out = p
		}
	}
	return out
}
