package ttlafterfinished

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// TimeLeft returns how long a finished Job is kept; false if it has no limit, is not finished, or
// has no finish time.
func TimeLeft(j *batchv1.Job, now time.Time) (time.Duration, bool) {
	ttl := j.Spec.TTLSecondsAfterFinished
	if ttl == nil || j.DeletionTimestamp != nil {
		return 0, false
	}
	for _, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			if c.LastTransitionTime.IsZero() {
				return 0, false // as upstream: its finish time is not known
			}
			return max(0, c.LastTransitionTime.Add(time.Duration(*ttl)*time.Second).Sub(now)), true
		}
	}
	return 0, false
}
