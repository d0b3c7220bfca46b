package ttlafterfinished

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/gantry-project/gantry/internal/job"
)

// TimeLeft returns how long a finished Job is kept; false if it has no limit, is not finished, or
// has no finish time.
func TimeLeft(j *batchv1.Job, now time.Time) (time.Duration, bool) {
	end, ok := expiry(j)
	if !ok {
		return 0, false
	}
	return max(0, end.Sub(now)), true
}

// Overdue returns how long ago a Job was due to be deleted; 0 if it is not yet, or never.
func Overdue(j *batchv1.Job, now time.Time) time.Duration {
	end, ok := expiry(j)
	if !ok {
		return 0
	}
	return max(0, now.Sub(end))
}

// Reason says how a Job ended and why it is deleted; it has a limit and is finished.
func Reason(j *batchv1.Job) string {
	how := "ended"
	if c := job.FinishedCondition(j.Status.Conditions); c != nil {
		how = fmt.Sprintf("ended (%s) at %s", strings.TrimSuffix(string(c.Type)+": "+c.Reason, ": "),
			c.LastTransitionTime.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("it %s, and is kept for its ttlSecondsAfterFinished of %d s", how,
		*j.Spec.TTLSecondsAfterFinished)
}

// expiry returns when a finished Job is due; see TimeLeft.
func expiry(j *batchv1.Job) (time.Time, bool) {
	ttl := j.Spec.TTLSecondsAfterFinished
	if ttl == nil || j.DeletionTimestamp != nil {
		return time.Time{}, false
	}
	c := job.FinishedCondition(j.Status.Conditions)
	if c == nil || c.LastTransitionTime.IsZero() {
		return time.Time{}, false // as upstream: without a time, its finish time is not known
	}
	return c.LastTransitionTime.Add(time.Duration(*ttl) * time.Second), true
}
