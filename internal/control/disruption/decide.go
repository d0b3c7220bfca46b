package disruption

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// deletionTimeout is after how long an evicted Pod that was not deleted counts as staying
	// (upstream's two minutes).
	deletionTimeout = 2 * time.Minute
	// staleDisruptionTimeout is after how long a DisruptionTarget condition of a Pod that nobody
	// deleted is taken back (upstream's two minutes).
	staleDisruptionTimeout = 2 * time.Minute
)

// Scale is a Pod's controller and how many Pods that wants.
type Scale struct {
	UID      string
	Replicas int32
}

// In is what the controller looks at: a budget, the Pods it selects, and per Pod the scale of its
// controller; a Pod without a controller has none.
type In struct {
	Budget *policyv1.PodDisruptionBudget
	Pods   []*corev1.Pod
	Scales map[string]Scale // by Pod name
	Now    time.Time
}

// Result is what follows: the status, the Pods that no controller counts, those that were evicted
// and stayed, and when to look again (zero: on change).
type Result struct {
	Status       policyv1.PodDisruptionBudgetStatus
	Unmanaged    []*corev1.Pod
	NotDeleted   []*corev1.Pod
	RequeueAfter time.Duration
}

// NeedsScales tells whether the budget's numbers are relative to what the Pods' controllers want.
func NeedsScales(b *policyv1.PodDisruptionBudget) bool {
	return b.Spec.MaxUnavailable != nil || b.Spec.MinAvailable != nil && b.Spec.MinAvailable.Type == intstr.String
}

// ComputeStatus counts. A percentage that cannot be read is an error.
func ComputeStatus(in In) (Result, error) {
	expected, unmanaged := int32(len(in.Pods)), []*corev1.Pod(nil)
	if NeedsScales(in.Budget) {
		expected, unmanaged = expectedScale(in)
	} else if in.Budget.Spec.MinAvailable == nil {
		expected = 0 // a budget that says nothing protects nothing
	}
	desired, err := desiredHealthy(in.Budget, expected)
	if err != nil {
		return Result{}, err
	}
	r := Result{Unmanaged: unmanaged}
	disrupted := r.disruptedPods(in)
	healthy := healthyPods(in.Pods, disrupted)
	allowed := max(healthy-desired, 0)
	if expected <= 0 {
		allowed = 0
	}
	r.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: in.Budget.Generation, DisruptedPods: disrupted, DisruptionsAllowed: allowed,
		CurrentHealthy: healthy, DesiredHealthy: desired, ExpectedPods: expected,
	}
	reason, status := policyv1.InsufficientPodsReason, metav1.ConditionFalse
	if allowed > 0 {
		reason, status = policyv1.SufficientPodsReason, metav1.ConditionTrue
	}
	r.Status.Conditions = condition(in, metav1.Condition{Status: status, Reason: reason,
		ObservedGeneration: in.Budget.Generation})
	return r, nil
}

// FailureStatus is the status when a budget could not be judged: nothing may go, and why.
func FailureStatus(in In, err error) policyv1.PodDisruptionBudgetStatus {
	s := *in.Budget.Status.DeepCopy()
	s.DisruptionsAllowed = 0
	s.Conditions = condition(in, metav1.Condition{
		Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason, Message: err.Error(),
		ObservedGeneration: s.ObservedGeneration,
	})
	return s
}

// Same tells whether writing the status would change nothing.
func Same(a, b policyv1.PodDisruptionBudgetStatus) bool {
	return equality.Semantic.DeepEqual(a, b)
}

func condition(in In, c metav1.Condition) []metav1.Condition {
	c.Type, c.LastTransitionTime = policyv1.DisruptionAllowedCondition, metav1.NewTime(in.Now)
	out := in.Budget.Status.DeepCopy().Conditions
	apimeta.SetStatusCondition(&out, c)
	return out
}

// desiredHealthy is how many Pods must stay healthy of those expected; percents are rounded up, on
// the side of safety for minAvailable and of the eviction for maxUnavailable, as upstream does.
func desiredHealthy(b *policyv1.PodDisruptionBudget, expected int32) (int32, error) {
	spec := b.Spec
	switch {
	case spec.MaxUnavailable != nil:
		deleted, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, int(expected), true)
		if err != nil {
			return 0, fmt.Errorf("spec.maxUnavailable: %w", err)
		}
		return max(expected-int32(deleted), 0), nil
	case spec.MinAvailable != nil:
		n, err := intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, int(expected), true)
		if err != nil {
			return 0, fmt.Errorf("spec.minAvailable: %w", err)
		}
		return int32(n), nil
	}
	return 0, nil
}

// expectedScale adds up what the controllers of the Pods want, each once; Pods without one are
// counted by nobody.
func expectedScale(in In) (int32, []*corev1.Pod) {
	var unmanaged []*corev1.Pod
	total, seen := int32(0), map[string]bool{}
	for _, p := range in.Pods {
		s, ok := in.Scales[p.Name]
		if !ok {
			unmanaged = append(unmanaged, p)
			continue
		}
		if !seen[s.UID] {
			seen[s.UID] = true
			total += s.Replicas
		}
	}
	return total, unmanaged
}

// disruptedPods keeps the Pods that an eviction took from the budget and that are not yet seen to
// be ending.
func (r *Result) disruptedPods(in In) map[string]metav1.Time {
	noted := in.Budget.Status.DisruptedPods
	if noted == nil {
		return nil
	}
	out := map[string]metav1.Time{}
	for _, p := range in.Pods {
		since, ok := noted[p.Name]
		if !ok || p.DeletionTimestamp != nil {
			continue
		}
		left := since.Add(deletionTimeout).Sub(in.Now)
		if left < 0 {
			r.NotDeleted = append(r.NotDeleted, p)
			continue
		}
		// One moment later, so that the look that follows finds the time over.
		if left += time.Millisecond; r.RequeueAfter == 0 || left < r.RequeueAfter {
			r.RequeueAfter = left
		}
		out[p.Name] = since
	}
	return out
}

func healthyPods(pods []*corev1.Pod, leaving map[string]metav1.Time) int32 {
	n := int32(0)
	for _, p := range pods {
		if _, goes := leaving[p.Name]; !goes && p.DeletionTimestamp == nil && ready(p) {
			n++
		}
	}
	return n
}

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// StaleDisruption tells whether a Pod carries a DisruptionTarget condition though nobody deletes
// it, and in how long that is to be taken back. What the kubelet set stays: the end it announces
// may take any time.
func StaleDisruption(p *corev1.Pod, now time.Time) (stale bool, in time.Duration) {
	if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false, 0
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue &&
			c.Reason != corev1.PodReasonTerminationByKubelet {
			return true, max(staleDisruptionTimeout-now.Sub(c.LastTransitionTime.Time), 0)
		}
	}
	return false, 0
}

// WithoutDisruptionTarget is the status of a Pod whose DisruptionTarget condition is taken back.
func WithoutDisruptionTarget(p *corev1.Pod, now time.Time) corev1.PodStatus {
	s := *p.Status.DeepCopy()
	for i := range s.Conditions {
		if s.Conditions[i].Type == corev1.DisruptionTarget {
			s.Conditions[i] = corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now),
				ObservedGeneration: p.Generation,
			}
		}
	}
	return s
}
