package finding

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/explain/workload"
)

// lacks reports whether the scheduler's words about a Pod name a resource as too little.
func lacks(p *corev1.Pod, resource string) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(x corev1.PodCondition) bool {
		return x.Type == corev1.PodScheduled && strings.Contains(x.Message, "Insufficient "+resource)
	})
}

// takenNames finds Pods of names that a StatefulSet needs and that are not its own: it cannot make
// its Pod beside them.
func takenNames(c *Cluster, o metav1.Object, self Object) []Finding {
	s, ok := o.(*appsv1.StatefulSet)
	if !ok {
		return nil
	}
	start := int32(0)
	if s.Spec.Ordinals != nil {
		start = s.Spec.Ordinals.Start
	}
	taken := map[int32]*corev1.Pod{}
	for _, p := range in[*corev1.Pod](c, "Pod", self.Namespace) {
		ordinal, ok := strings.CutPrefix(p.Name, s.Name+"-")
		i, err := strconv.ParseInt(ordinal, 10, 32)
		if r := metav1.GetControllerOf(p); !ok || err != nil || strconv.Itoa(int(i)) != ordinal ||
			i < int64(start) || i >= int64(start)+int64(workload.Replicas(s.Spec.Replicas)) ||
			r != nil && r.UID == s.UID || p.DeletionTimestamp != nil ||
			c.Now.Sub(s.CreationTimestamp.Time) < settleTime {
			continue
		}
		taken[int32(i)] = p
	}
	var out []Finding
	for _, i := range slices.Sorted(maps.Keys(taken)) {
		p := taken[i]
		r := metav1.GetControllerOf(p)
		whose := "nobody's"
		if r != nil {
			whose = r.Kind + " " + r.Name + "'s"
		}
		at := objectOf("Pod", p)
		out = append(out, Finding{Code: "NameTaken", Stage: StageCreation, Object: at, Field: "metadata.name",
			Value: p.Name, Related: []Object{self}, Numbers: map[string]string{"ordinal": fmt.Sprint(i)},
			Message: fmt.Sprintf("StatefulSet %s cannot make its Pod %s: there is a Pod of that name that is %s, and "+
				"its selector does not let it be taken over.", s.Name, p.Name, whose),
			Remedies: []Remedy{{Say: fmt.Sprintf("delete Pod %s: the StatefulSet then makes its own", p.Name),
				Run: []string{kubectl(at, "delete", "")}}}})
		if s.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
			break // those after it wait for it
		}
	}
	return out
}

// uncountable finds a budget whose rule needs the number of Pods that a controller wants, over Pods
// without one.
func (c *Cluster) uncountable(b *policyv1.PodDisruptionBudget, self Object) []Finding {
	field, value := "spec.maxUnavailable", b.Spec.MaxUnavailable
	if m := b.Spec.MinAvailable; m != nil {
		if m.Type == intstr.Int {
			return nil
		}
		field, value = "spec.minAvailable", m
	}
	if value == nil {
		return nil
	}
	all := c.selectedBy(b)
	var bare []Object
	for _, p := range all {
		if metav1.GetControllerOf(p) == nil {
			bare = append(bare, objectOf("Pod", p))
		}
	}
	if len(bare) == 0 {
		return nil
	}
	least := max(len(all)-1, 1)
	return []Finding{{Code: "BudgetNotCounted", Severity: Threat, Stage: StageChange, Object: self, Field: field,
		Value: value.String(), Want: fmt.Sprintf("minAvailable: %d", least), Related: bare,
		Numbers: map[string]string{"pods": fmt.Sprint(len(all)), "withoutController": fmt.Sprint(len(bare))},
		Message: fmt.Sprintf("Budget %s has %s %s, which is counted against the number of Pods that a controller "+
			"wants, and %d of its %d Pods have no controller: only a whole number for minAvailable is counted for "+
			"them.%s",
			self.Name, strings.TrimPrefix(field, "spec."), value.String(), len(bare), len(all), counted(b)),
		Remedies: []Remedy{{Say: "state minAvailable as a whole number", Run: []string{kubectl(self, "patch",
			fmt.Sprintf(`--type=merge -p '{"spec":{"minAvailable":%d,"maxUnavailable":null}}'`, least))}}}}}
}

// counted says what the controller made of a budget that cannot be counted.
func counted(b *policyv1.PodDisruptionBudget) string {
	s := b.Status
	if s.DisruptionsAllowed > 0 || s.ObservedGeneration < b.Generation {
		return ""
	}
	return fmt.Sprintf(" So %d Pods are expected, and no eviction is allowed though %d are healthy.", s.ExpectedPods,
		s.CurrentHealthy)
}
