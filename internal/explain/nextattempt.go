package explain

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// attemptTime is how long a Job's next Pod may take to start until that itself is worth explaining.
const attemptTime = time.Minute

// nextAttempt is 1 for a Job's Pod that starts and of which nothing is wrong yet, 0 for any other.
func nextAttempt(p *corev1.Pod, now time.Time) int {
	o := metav1.GetControllerOf(p)
	if o == nil || o.Kind != "Job" || p.Status.Phase != corev1.PodPending || p.DeletionTimestamp != nil ||
		now.Sub(p.CreationTimestamp.Time) > attemptTime {
		return 0
	}
	if c := condition(p, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return 0
	}
	if slices.ContainsFunc(containers(p), func(c container) bool {
		return c.status != nil && c.status.State.Waiting != nil && !slices.Contains([]string{"", "ContainerCreating",
			"PodInitializing"}, c.status.State.Waiting.Reason) || c.status != nil && c.status.State.Terminated != nil &&
			c.status.State.Terminated.ExitCode != 0
	}) {
		return 0
	}
	return 1
}
