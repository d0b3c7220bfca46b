package job

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestFinishedCondition(t *testing.T) {
	for typ, ends := range map[batchv1.JobConditionType]bool{
		batchv1.JobComplete: true, batchv1.JobFailed: true, batchv1.JobFailureTarget: false,
		batchv1.JobSuccessCriteriaMet: false, batchv1.JobSuspended: false,
	} {
		for _, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse,
			corev1.ConditionUnknown} {
			j := &batchv1.Job{}
			j.Status.Conditions = []batchv1.JobCondition{{Type: "Other", Status: corev1.ConditionTrue},
				{Type: typ, Status: status}}
			want := ends && status == corev1.ConditionTrue
			if got := IsFinished(j); got != want {
				t.Errorf("%s is %s: got finished %t, want %t", typ, status, got, want)
			}
			if c := FinishedCondition(j.Status.Conditions); (c != nil) != want || want && c != &j.Status.Conditions[1] {
				t.Errorf("%s is %s: got condition %+v, want the second of the list: %t", typ, status, c, want)
			}
		}
	}
}
