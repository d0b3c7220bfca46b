package explain

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
)

// evictionWindow is how long a refused eviction is worth explaining.
const evictionWindow = 10 * time.Minute

// budgetsOf returns the PodDisruptionBudgets that select the Pod.
func (a *NamespaceContext) budgetsOf(p *corev1.Pod) []*policyv1.PodDisruptionBudget {
	if a == nil {
		return nil
	}
	var out []*policyv1.PodDisruptionBudget
	for _, b := range a.Budgets {
		if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && s.Matches(labels.Set(p.Labels)) {
			out = append(out, b)
		}
	}
	return out
}

// evictionRefused explains why a Pod could not be evicted a short while ago, by the budgets'
// current state.
func evictionRefused(in In) *Answer {
	if in.Pod == nil {
		return nil
	}
	f, at, ok := newest[journal.EvictionRefused](in, nil)
	if !ok || in.Now.Sub(at) > evictionWindow {
		return nil
	}
	a := &Answer{State: "not to be evicted", Since: at,
		Next: "an eviction is granted as soon as the budget allows it; kubectl drain asks again by itself"}
	covering := in.NamespaceContext.budgetsOf(in.Pod)
	ns := in.Ref.Namespace
	switch len(covering) {
	case 0:
		a.Cause = fmt.Sprintf("The eviction of %s was refused by budget %s: %s", in.Ref.Name, f.Budget, f.Message)
	case 1:
		refusedByBudget(a, in, covering[0])
	default:
		var names []string
		for _, b := range covering {
			names = append(names, b.Name)
			a.Fixes = append(a.Fixes, commandFix("take the budget "+b.Name+" away, if the other one protects enough",
				fmt.Sprintf("kubectl -n %s delete pdb %s", ns, b.Name)))
		}
		a.Cause = fmt.Sprintf("The eviction of %s is refused because more than one budget covers it: %s. Evictions "+
			"are possible under one budget at most, whatever each allows.", in.Ref.Name, joinList(names))
		a.Next = "nothing: it is refused as long as more than one covers the Pod"
		for _, b := range covering {
			a.Facts = append(a.Facts, fmt.Sprintf("budget %s (%s) by itself allows %d disruptions", b.Name,
				metav1.FormatLabelSelector(b.Spec.Selector), b.Status.DisruptionsAllowed))
		}
	}
	a.Facts = append(a.Facts, fmt.Sprintf("refused %s ago: %s", ago(in.Now.Sub(at)), f.Message))
	return a
}

// refusedByBudget adds the numbers of one budget.
func refusedByBudget(a *Answer, in In, b *policyv1.PodDisruptionBudget) {
	var sick, well []string
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if in.ClusterContext != nil && err == nil {
		for _, p := range in.ClusterContext.Pods {
			switch {
			case p.Namespace != b.Namespace || !selector.Matches(labels.Set(p.Labels)) || pod.IsTerminal(p) ||
				p.DeletionTimestamp != nil:
			case pod.IsReady(p):
				well = append(well, p.Name)
			default:
				sick = append(sick, p.Name)
			}
		}
	}
	slices.Sort(sick)
	slices.Sort(well)
	s := b.Status
	ready := pod.IsReady(in.Pod)
	policy := policyv1.IfHealthyBudget
	if b.Spec.UnhealthyPodEvictionPolicy != nil {
		policy = *b.Spec.UnhealthyPodEvictionPolicy
	}
	ns, name := in.Ref.Namespace, in.Ref.Name
	if ready {
		a.Cause = fmt.Sprintf("The eviction of %s is refused: budget %s wants %d healthy Pods and has %d%s, so none "+
			"may go now.", name, b.Name, s.DesiredHealthy, s.CurrentHealthy, unhealthyText(well, sick))
	} else {
		a.Cause = fmt.Sprintf("The eviction of %s is refused although %s is not ready itself: budget %s has %d "+
			"healthy, and wants %d%s; with unhealthyPodEvictionPolicy %s an unready Pod may go only while the budget "+
			"is met.",
			name, name, b.Name, s.CurrentHealthy, s.DesiredHealthy, unhealthyText(well, sick),
			evictionPolicyText(b, policy))
		a.Fixes = append(a.Fixes,
			commandFix("let Pods that are not ready go whatever the budget says: they serve nobody anyway",
				fmt.Sprintf(
					`kubectl -n %s patch pdb %s --type=merge -p `+
						`'{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}'`, ns, b.Name)))
	}
	if o := whatif.OwnerOf(in.Pod); ready && len(sick) == 0 && (o.Kind == "deployment" || o.Kind == "statefulset" ||
		o.Kind == "replicaset") {
		if n := len(well) + int(max(1, s.DesiredHealthy+1-s.CurrentHealthy)); b.Spec.MaxUnavailable == nil {
			a.Fixes = append(a.Fixes, commandFix(fmt.Sprintf("run one more: %d replicas", n),
				fmt.Sprintf("kubectl -n %s scale %s %s --replicas=%d", ns, o.Kind, o.Name, n)))
		}
	}
	for _, x := range sick {
		if x != name {
			a.Fixes = append(a.Fixes, seeWhy("make "+x+" ready again", "Pod", ns, x))
		}
	}
	a.Fixes = append(a.Fixes, relaxBudget(ns, b)...)
}

// relaxBudget returns fixes that lower what the budget requires, and says what that costs.
func relaxBudget(ns string, b *policyv1.PodDisruptionBudget) []Fix {
	s := b.Status
	if b.Spec.MaxUnavailable != nil {
		n := max(1, s.ExpectedPods-s.CurrentHealthy+1)
		return []Fix{commandFix(fmt.Sprintf("or allow %d to be away at once: then only %d serve while one is evicted",
			n, s.ExpectedPods-n),
			fmt.Sprintf(`kubectl -n %s patch pdb %s --type=merge -p '{"spec":{"maxUnavailable":%d}}'`, ns, b.Name, n))}
	}
	if s.CurrentHealthy < 1 {
		return nil
	}
	return []Fix{commandFix(fmt.Sprintf("or be content with %d healthy Pods instead of %d", s.CurrentHealthy-1,
		s.DesiredHealthy), fmt.Sprintf(`kubectl -n %s patch pdb %s --type=merge -p '{"spec":{"minAvailable":%d}}'`, ns,
		b.Name, s.CurrentHealthy-1))}
}

func unhealthyText(well, sick []string) string {
	switch {
	case len(well)+len(sick) == 0:
		return ""
	case len(sick) == 0:
		return " (" + joinList(well) + ")"
	case len(well) == 0:
		return " (not ready: " + joinList(sick) + ")"
	}
	return " (ready: " + joinList(well) + "; not ready: " + joinList(sick) + ")"
}

func evictionPolicyText(b *policyv1.PodDisruptionBudget, p policyv1.UnhealthyPodEvictionPolicyType) string {
	if b.Spec.UnhealthyPodEvictionPolicy == nil {
		return string(p) + " (the default)"
	}
	return string(p)
}
