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

// budget finds a PodDisruptionBudget that allows no eviction: never, or not now.
func budget(c *Cluster, o metav1.Object, self Object) []Finding {
	b, ok := o.(*policyv1.PodDisruptionBudget)
	if !ok {
		return nil
	}
	s := b.Status
	f := Finding{Severity: Threat, Stage: StageChange, Object: self, Numbers: map[string]string{
		"expectedPods": fmt.Sprint(s.ExpectedPods), "desiredHealthy": fmt.Sprint(s.DesiredHealthy),
		"currentHealthy": fmt.Sprint(s.CurrentHealthy), "disruptionsAllowed": fmt.Sprint(s.DisruptionsAllowed)}}
	if out := c.uncountable(b, self); len(out) > 0 {
		return append(out, c.sharedBudgets(b, self)...)
	}
	for _, cond := range s.Conditions {
		if cond.Type == policyv1.DisruptionAllowedCondition && cond.Reason == policyv1.SyncFailedReason {
			f.Code, f.Field, f.Value = "BudgetNotCounted", "status.conditions", cond.Reason
			f.Message = fmt.Sprintf("Budget %s cannot be counted, so it allows no eviction: %s", self.Name,
				cond.Message)
			return []Finding{f}
		}
	}
	if s.ObservedGeneration < b.Generation {
		if c.Now.Sub(lastWrite(b)) < settleTime {
			return nil
		}
		f.Code, f.Stage, f.Field, f.Value = "ControllersIdle", StageControl, "status.observedGeneration",
			fmt.Sprint(s.ObservedGeneration)
		f.Message = fmt.Sprintf("No controller has counted budget %s since it was changed: observedGeneration is %d, "+
			"generation %d.", self.Name, s.ObservedGeneration, b.Generation)
		return []Finding{f}
	}
	if s.ExpectedPods == 0 || s.DisruptionsAllowed > 0 {
		return c.sharedBudgets(b, self)
	}
	switch {
	case s.DesiredHealthy >= s.ExpectedPods:
		f.never(b, c.ownersOf(c.selectedBy(b)))
	default:
		f.Code, f.Field, f.Value = "BudgetUsedUp", "status.currentHealthy", fmt.Sprint(s.CurrentHealthy)
		f.Message = fmt.Sprintf("Budget %s allows no eviction now: %d Pods are healthy, and %d of %d must be (%s).",
			self.Name, s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods, budgetRule(b))
		for _, p := range c.unhealthy(b) {
			f.Related = append(f.Related, objectOf("Pod", p))
			f.Remedies = append(f.Remedies, SeeWhy("make "+p.Name+" ready again", objectOf("Pod", p)))
		}
	}
	out := append([]Finding{f}, c.heldUnhealthy(b, f)...)
	return append(out, c.sharedBudgets(b, self)...)
}

// heldUnhealthy finds Pods that are not ready and may not be evicted either, as their budget has
// too few healthy ones: by default a drain waits for them too.
func (c *Cluster) heldUnhealthy(b *policyv1.PodDisruptionBudget, f Finding) []Finding {
	p := b.Spec.UnhealthyPodEvictionPolicy
	if p != nil && *p == policyv1.AlwaysAllow || b.Status.CurrentHealthy >= b.Status.DesiredHealthy {
		return nil
	}
	f.Code, f.Field, f.Value, f.Want = "UnhealthyHeld", "spec.unhealthyPodEvictionPolicy",
		string(policyv1.IfHealthyBudget), string(policyv1.AlwaysAllow)
	f.Related = nil
	var names []string
	for _, p := range c.unhealthy(b) {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			f.Related, names = append(f.Related, objectOf("Pod", p)), append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	f.Message = fmt.Sprintf("Budget %s keeps also Pods that are not ready from eviction (unhealthyPodEvictionPolicy "+
		"IfHealthyBudget, the default), as %d of the %d that must be healthy are: %s.", b.Name, b.Status.CurrentHealthy,
		b.Status.DesiredHealthy, joined(names))
	f.Remedies = []Remedy{{Say: "let Pods that are not ready be evicted always: they serve nobody", Run: []string{
		kubectl(f.Object, "patch", `--type=merge -p '{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}'`)}}}
	return []Finding{f}
}

// budgetRule is the field of a budget with its number.
func budgetRule(b *policyv1.PodDisruptionBudget) string {
	if m := b.Spec.MaxUnavailable; m != nil {
		_, text := percent(m, b.Status.ExpectedPods, true)
		return "maxUnavailable " + text
	}
	_, text := percent(b.Spec.MinAvailable, b.Status.ExpectedPods, true)
	return "minAvailable " + text
}

// never describes a budget that no health of its Pods can satisfy with one Pod less.
func (f *Finding) never(b *policyv1.PodDisruptionBudget, owners []Object) {
	n := b.Status.ExpectedPods
	f.Code, f.Field = "BudgetNeverAllows", "spec.minAvailable"
	if b.Spec.MinAvailable != nil {
		f.Value = b.Spec.MinAvailable.String()
	}
	patch := fmt.Sprintf(`{"spec":{"minAvailable":%d}}`, max(n-1, 0))
	if m := b.Spec.MaxUnavailable; m != nil {
		f.Field, f.Value, patch = "spec.maxUnavailable", m.String(), `{"spec":{"maxUnavailable":1}}`
	}
	f.Message = fmt.Sprintf("Budget %s never allows an eviction: %s, and %d of %d Pods must stay healthy. A drain of "+
		"their nodes waits for ever.", b.Name, budgetRule(b), b.Status.DesiredHealthy, n)
	f.Message += ofWorkloads(owners)
	f.Remedies = []Remedy{{Say: fmt.Sprintf("let one Pod be away at a time: %d of %d then serve", max(n-1, 0), n),
		Run: []string{kubectl(f.Object, "patch", "--type=merge -p '"+patch+"'")}}}
	if b.Spec.MinAvailable != nil {
		f.Remedies = append(f.Remedies, Remedy{Say: "or run more Pods than minAvailable demands"})
	}
}

// selectedBy returns the Pods that a budget is about.
func (c *Cluster) selectedBy(b *policyv1.PodDisruptionBudget) []*corev1.Pod {
	var out []*corev1.Pod
	s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return nil
	}
	for _, p := range in[*corev1.Pod](c, "Pod", b.Namespace) {
		if s.Matches(labels.Set(p.Labels)) && !pod.IsTerminal(p) {
			out = append(out, p)
		}
	}
	return out
}

// unhealthy returns the Pods of a budget that do not count as healthy.
func (c *Cluster) unhealthy(b *policyv1.PodDisruptionBudget) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range c.selectedBy(b) {
		if !pod.IsReady(p) {
			out = append(out, p)
		}
	}
	return out
}

// sharedBudgets finds Pods under several budgets: the eviction of such a Pod is refused always.
func (c *Cluster) sharedBudgets(b *policyv1.PodDisruptionBudget, self Object) []Finding {
	var out []Finding
	mine := map[string]bool{}
	for _, p := range c.selectedBy(b) {
		mine[p.Name] = true
	}
	for _, other := range in[*policyv1.PodDisruptionBudget](c, "PodDisruptionBudget", b.Namespace) {
		if other.Name == b.Name {
			continue
		}
		for _, p := range c.selectedBy(other) {
			if !mine[p.Name] {
				continue
			}
			out = append(out, Finding{Code: "BudgetsOverlap", Severity: Threat, Stage: StageChange, Object: self,
				Field: "spec.selector", Value: metav1.FormatLabelSelector(b.Spec.Selector),
				Related: []Object{objectOf("PodDisruptionBudget", other), objectOf("Pod", p)},
				Message: fmt.Sprintf("Budgets %s and %s both cover Pod %s: an eviction of it is refused always, "+
					"because only one budget may.", b.Name, other.Name, p.Name),
				Remedies: []Remedy{{Say: "delete one of them"}}})
			break
		}
	}
	return out
}

// budgetsOverPod finds budgets under which a Pod can never be evicted.
func budgetsOverPod(c *Cluster, o metav1.Object, _ Object) []Finding {
	p, ok := o.(*corev1.Pod)
	if !ok || pod.IsTerminal(p) {
		return nil
	}
	var over []*policyv1.PodDisruptionBudget
	for _, b := range in[*policyv1.PodDisruptionBudget](c, "PodDisruptionBudget", p.Namespace) {
		s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && s.Matches(labels.Set(p.Labels)) {
			over = append(over, b)
		}
	}
	var out []Finding
	for _, b := range over {
		for _, f := range budget(c, b, objectOf("PodDisruptionBudget", b)) {
			if f.Code != "BudgetsOverlap" || len(over) > 1 {
				f.Severity = Note
				out = append(out, f)
			}
		}
	}
	return out
}

// ownersOf are the outermost controllers of Pods, each once.
func (c *Cluster) ownersOf(pods []*corev1.Pod) []Object {
	var out []Object
	for _, p := range pods {
		if o := c.outermost(p, objectOf("Pod", p)); o.Kind != "Pod" && !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	return out
}

// ofWorkloads says, with a space before it, whose Pods a budget is about.
func ofWorkloads(owners []Object) string {
	if len(owners) == 0 {
		return ""
	}
	return fmt.Sprintf(" They are Pods of %s.", objectNames(owners))
}
