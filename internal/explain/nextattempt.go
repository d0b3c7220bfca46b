package explain

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// attemptTime is how long a Job's next Pod may take to start until that itself is worth explaining.
const attemptTime = time.Minute

// nextAttempt is 1 for a Pod that starts, of which nothing is wrong yet, and that is made for one
// that failed: of a Job, or where a kubelet has refused others of its controller lately. It is 0
// for any other.
func nextAttempt(p *corev1.Pod, now time.Time, refused bool) int {
	o := metav1.GetControllerOf(p)
	if o == nil || o.Kind != "Job" && !refused || p.Status.Phase != corev1.PodPending || p.DeletionTimestamp != nil ||
		now.Sub(p.CreationTimestamp.Time) > attemptTime {
		return 0
	}
	if c := pod.Condition(p, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
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

// refusedLately reports whether a kubelet has refused a Pod, or evicted it, shortly after it was
// made: what makes such Pods makes them again and again.
func refusedLately(p *corev1.Pod, now time.Time) bool {
	return p.Status.Phase == corev1.PodFailed && p.Status.Reason != "" &&
		now.Sub(p.CreationTimestamp.Time) <= attemptTime
}
