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

	podutil "github.com/gantry-project/gantry/internal/pod"
)

const (
	// deletionTimeout is when an evicted Pod that was not deleted counts as staying, as upstream.
	deletionTimeout = 2 * time.Minute
	// staleDisruptionTimeout is when the DisruptionTarget condition of a Pod that was not deleted
	// is reset, as upstream.
	staleDisruptionTimeout = 2 * time.Minute
)

// Scale is a Pod's controller and its wanted number of Pods.
type Scale struct {
	UID      string
	Replicas int32
}

// In is the input of ComputeStatus: a budget, the Pods it selects, and the scale of each Pod's
// controller.
type In struct {
	Budget *policyv1.PodDisruptionBudget
	Pods   []*corev1.Pod
	Scales map[string]Scale // by Pod name; none for Pods without controller
	Now    time.Time
}

// Result is the new status, the Pods without controller, those that were evicted and stayed, and
// when to sync again (zero: on change).
type Result struct {
	Status       policyv1.PodDisruptionBudgetStatus
	Unmanaged    []*corev1.Pod
	NotDeleted   []*corev1.Pod
	RequeueAfter time.Duration
}

// NeedsScales reports whether the budget's numbers are relative to the controllers' scale.
func NeedsScales(b *policyv1.PodDisruptionBudget) bool {
	return b.Spec.MaxUnavailable != nil || b.Spec.MinAvailable != nil && b.Spec.MinAvailable.Type == intstr.String
}

// ComputeStatus computes a budget's status. An invalid percentage is an error.
func ComputeStatus(in In) (Result, error) {
	expected, unmanaged := int32(len(in.Pods)), []*corev1.Pod(nil)
	if NeedsScales(in.Budget) {
		expected, unmanaged = expectedScale(in)
	} else if in.Budget.Spec.MinAvailable == nil {
		expected = 0 // an empty budget protects nothing
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

// FailureStatus returns the status if ComputeStatus failed: no disruption is allowed, and why.
func FailureStatus(in In, err error) policyv1.PodDisruptionBudgetStatus {
	s := *in.Budget.Status.DeepCopy()
	s.DisruptionsAllowed = 0
	s.Conditions = condition(in, metav1.Condition{
		Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason, Message: err.Error(),
		ObservedGeneration: s.ObservedGeneration,
	})
	return s
}

// Same reports whether writing the status would change nothing.
func Same(a, b policyv1.PodDisruptionBudgetStatus) bool {
	return equality.Semantic.DeepEqual(a, b)
}

func condition(in In, c metav1.Condition) []metav1.Condition {
	c.Type, c.LastTransitionTime = policyv1.DisruptionAllowedCondition, metav1.NewTime(in.Now)
	out := in.Budget.Status.DeepCopy().Conditions
	apimeta.SetStatusCondition(&out, c)
	return out
}

// desiredHealthy returns how many of the expected Pods must stay healthy; percentages are rounded
// up, which favours availability for minAvailable and eviction for maxUnavailable, as upstream.
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

// expectedScale adds up the scales of the Pods' controllers, each once; it also returns Pods
// without controller.
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

// disruptedPods returns the Pods that an eviction counted and that are not yet seen terminating.
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
		// One millisecond later, so that the next sync is after the timeout.
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
		if _, goes := leaving[p.Name]; !goes && p.DeletionTimestamp == nil && podutil.IsReady(p) {
			n++
		}
	}
	return n
}

// StaleDisruption reports whether a Pod has a DisruptionTarget condition although it is not being
// deleted, and when to reset it. Conditions set by the kubelet stay: the announced termination may
// take any time.
func StaleDisruption(p *corev1.Pod, now time.Time) (stale bool, in time.Duration) {
	if !podutil.IsActive(p) {
		return false, 0
	}
	c := podutil.Condition(p, corev1.DisruptionTarget)
	if c == nil || c.Status != corev1.ConditionTrue || c.Reason == corev1.PodReasonTerminationByKubelet {
		return false, 0
	}
	return true, max(staleDisruptionTimeout-now.Sub(c.LastTransitionTime.Time), 0)
}

// WithoutDisruptionTarget returns the Pod's status with the condition reset.
func WithoutDisruptionTarget(p *corev1.Pod, now time.Time) corev1.PodStatus {
	p = p.DeepCopy()
	if c := podutil.Condition(p, corev1.DisruptionTarget); c != nil {
		*c = corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now),
			ObservedGeneration: p.Generation,
		}
	}
	return p.Status
}
