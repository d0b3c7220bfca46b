package preempt

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kube-scheduler/framework"
)

// budget is a PodDisruptionBudget with its selector compiled.
type budget struct {
	namespace string
	name      string
	selector  labels.Selector
	allowed   int32
	already   map[string]metav1.Time // Pods whose disruption it has counted
}

func readBudgets(all []*policy.PodDisruptionBudget) ([]budget, error) {
	out := make([]budget, 0, len(all))
	for _, b := range all {
		s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			return nil, fmt.Errorf("selector of PodDisruptionBudget %s/%s: %w", b.Namespace, b.Name, err)
		}
		if !s.Empty() {
			out = append(out, budget{b.Namespace, b.Name, s, b.Status.DisruptionsAllowed, b.Status.DisruptedPods})
		}
	}
	return out, nil
}

// counts tells whether a Pod's leaving uses the budget up.
func (b *budget) counts(p *v1.Pod) bool {
	if len(p.Labels) == 0 || b.namespace != p.Namespace || !b.selector.Matches(labels.Set(p.Labels)) {
		return false
	}
	_, counted := b.already[p.Name]
	return !counted
}

// split parts Pods into those whose leaving would break a budget, given that the ones before them leave too, and the others.
func split(pods []framework.PodInfo, budgets []budget) (breaking, harmless []framework.PodInfo) {
	breaks := make([]bool, len(pods))
	breaking = marked(pods, budgets, breaks)
	for i, p := range pods {
		if !breaks[i] {
			harmless = append(harmless, p)
		}
	}
	return breaking, harmless
}

// marked lists Pods whose leaving would break a budget, given that the ones before them leave too, and marks their places.
func marked(pods []framework.PodInfo, budgets []budget, breaks []bool) (breaking []framework.PodInfo) {
	left := make([]int32, len(budgets))
	for i := range budgets {
		left[i] = budgets[i].allowed
	}
	for at, i := range pods {
		p := i.GetPod()
		for b := range budgets {
			if !budgets[b].counts(p) {
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
