package ttlafterfinished

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Why a Job is deleted says how it ended, when, and for how long it is kept.
func TestReason(t *testing.T) {
	ended := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	for want, c := range map[string]batchv1.JobCondition{
		"it ended (Complete) at 2026-01-02T03:04:05Z, and is kept for its ttlSecondsAfterFinished of 5 s": {
			Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: ended},
		"it ended (Failed: DeadlineExceeded) at 2026-01-02T03:04:05Z, and is kept for its ttlSecondsAfterFinished of " +
			"5 s": {Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "DeadlineExceeded",
			LastTransitionTime: ended},
	} {
		j := &batchv1.Job{Spec: batchv1.JobSpec{TTLSecondsAfterFinished: new(int32(5))},
			Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuspended,
				Status: corev1.ConditionFalse}, c}}}
		if got := Reason(j); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
