package pods

import (
	"context"
	stderrors "errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/component-helpers/apps/poddisruptionbudget"

	podutil "github.com/gantry-project/gantry/internal/pod"
)

const (
	evictionRetryInterval = 500 * time.Millisecond
	tryLaterSeconds       = 10
	maxDisruptedPods      = 2000
	budgetViolated        = "Cannot evict pod as it would violate the pod's disruption budget."
	budgetsUnconfirmed    = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
)

// budgets are the PodDisruptionBudgets that select the Pod.
func (r *evictionREST) budgets(ctx context.Context, p *v1.Pod) ([]policyv1.PodDisruptionBudget, error) {
	if len(p.Labels) == 0 {
		return nil, nil
	}
	store := r.lookup(policyv1.GroupName, "poddisruptionbudgets")
	if store == nil {
		return nil, nil
	}
	o, err := store.List(ctx, &internalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	list, ok := o.(*policyv1.PodDisruptionBudgetList)
	if !ok {
		return nil, fmt.Errorf("unexpected list type %T in the store of poddisruptionbudgets", o)
	}
	return MatchingBudgets(list.Items, p), nil
}

// MatchingBudgets picks the budgets whose selector matches the Pod. One with an unreadable selector
// governs nothing.
func MatchingBudgets(all []policyv1.PodDisruptionBudget, p *v1.Pod) []policyv1.PodDisruptionBudget {
	var out []policyv1.PodDisruptionBudget
	for _, b := range all {
		if b.Namespace != p.Namespace {
			continue
		}
		sel, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && sel.Matches(labels.Set(p.Labels)) {
			out = append(out, b)
		}
	}
	return out
}

// canEvictUnready says that an unready Pod may go without asking the budget: always when the budget
// says so, or when enough others are healthy.
func canEvictUnready(p *v1.Pod, b *policyv1.PodDisruptionBudget) bool {
	if podutil.IsConditionTrue(p, v1.PodReady) {
		return false
	}
	if pol := b.Spec.UnhealthyPodEvictionPolicy; pol != nil && *pol == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0
}

// checkAndDecrement uses up one disruption of the budget, in one transaction, so that no two
// evictions share it.
func (r *evictionREST) checkAndDecrement(ctx context.Context, p *v1.Pod, name string, dryRun bool) error {
	s := Generic(r.lookup(policyv1.GroupName, "poddisruptionbudgets"))
	key, err := s.KeyFunc(ctx, name)
	if err != nil {
		return err
	}
	return s.Storage.GuaranteedUpdate(ctx, key, &policyv1.PodDisruptionBudget{}, false, nil,
		storage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) {
			b, ok := o.(*policyv1.PodDisruptionBudget)
			if !ok {
				return nil, fmt.Errorf("unexpected object: %#v", o)
			}
			return b, CheckAndDecrement(b, p.Name, metav1.Now())
		}), dryRun, nil)
}

// CheckAndDecrement counts one disruption off the budget's status and notes the Pod, or refuses:
// 429 while the budget allows none or has not been looked at since it changed.
func CheckAndDecrement(b *policyv1.PodDisruptionBudget, pod string, now metav1.Time) error {
	gr := schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudget"}
	switch {
	case b.Status.ObservedGeneration < b.Generation:
		return tooManyRequests(b.Name)
	case b.Status.DisruptionsAllowed < 0:
		return errors.NewForbidden(gr, b.Name, stderrors.New("pdb disruptions allowed is negative"))
	case len(b.Status.DisruptedPods) > maxDisruptedPods:
		return errors.NewForbidden(gr, b.Name, stderrors.New(budgetsUnconfirmed))
	case b.Status.DisruptionsAllowed == 0:
		return budgetRefusal(b)
	}
	b.Status.DisruptionsAllowed--
	if b.Status.DisruptionsAllowed == 0 {
		poddisruptionbudget.UpdateDisruptionAllowedCondition(b)
	}
	if b.Status.DisruptedPods == nil {
		b.Status.DisruptedPods = map[string]metav1.Time{}
	}
	b.Status.DisruptedPods[pod] = now
	return nil
}

func budgetRefusal(b *policyv1.PodDisruptionBudget) error {
	message := fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name,
		b.Status.DesiredHealthy, b.Status.CurrentHealthy)
	if c := meta.FindStatusCondition(b.Status.Conditions, policyv1.DisruptionAllowedCondition); c != nil &&
		c.Status == metav1.ConditionFalse && c.Reason == policyv1.SyncFailedReason {
		message = fmt.Sprintf("The disruption budget %s does not allow evicting pods currently because it failed "+
			"sync: %v", b.Name, c.Message)
	}
	return withMessage(errors.NewTooManyRequests(budgetViolated, 0), message)
}

// tooManyRequests is the refusal while the budget's status is not up to date.
func tooManyRequests(budget string) error {
	return withMessage(errors.NewTooManyRequests(budgetViolated, tryLaterSeconds),
		fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget))
}

func withMessage(err *errors.StatusError, message string) error {
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: message})
	return err
}
