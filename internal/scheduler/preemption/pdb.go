package preemption

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kube-scheduler/framework"
)

// pdb is a PodDisruptionBudget with its selector compiled.
type pdb struct {
	namespace string
	name      string
	selector  labels.Selector
	allowed   int32
	disrupted map[string]metav1.Time // Pods whose disruption it has counted
}

func compilePDBs(all []*policy.PodDisruptionBudget) ([]pdb, error) {
	out := make([]pdb, 0, len(all))
	for _, b := range all {
		s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			return nil, fmt.Errorf("selector of PodDisruptionBudget %s/%s: %w", b.Namespace, b.Name, err)
		}
		if !s.Empty() {
			out = append(out, pdb{b.Namespace, b.Name, s, b.Status.DisruptionsAllowed, b.Status.DisruptedPods})
		}
	}
	return out, nil
}

// matches tells whether a Pod's leaving uses the budget up.
func (b *pdb) matches(p *v1.Pod) bool {
	if len(p.Labels) == 0 || b.namespace != p.Namespace || !b.selector.Matches(labels.Set(p.Labels)) {
		return false
	}
	_, counted := b.disrupted[p.Name]
	return !counted
}

// filterPodsWithPDBViolation parts Pods into those whose leaving would break a budget, given that
// the ones before them leave too, and the others.
func filterPodsWithPDBViolation(pods []framework.PodInfo, budgets []pdb) (breaking, harmless []framework.PodInfo) {
	breaks := make([]bool, len(pods))
	breaking = markPDBViolations(pods, budgets, breaks)
	for i, p := range pods {
		if !breaks[i] {
			harmless = append(harmless, p)
		}
	}
	return breaking, harmless
}

// markPDBViolations lists Pods whose leaving would break a budget, given that the ones before them
// leave too, and marks their places.
func markPDBViolations(pods []framework.PodInfo, budgets []pdb, breaks []bool) (breaking []framework.PodInfo) {
	left := make([]int32, len(budgets))
	for i := range budgets {
		left[i] = budgets[i].allowed
	}
	for at, i := range pods {
		p := i.GetPod()
		for b := range budgets {
			if !budgets[b].matches(p) {
				continue
			}
			left[b]--
			breaks[at] = breaks[at] || left[b] < 0
		}
		if breaks[at] {
			breaking = append(breaking, i)
		}
	}
	return breaking
}
