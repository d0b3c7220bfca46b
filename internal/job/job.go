package job

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// FinishedCondition is the condition with which a Job finished, Complete or Failed with status True
// (upstream: FinishedCondition), a pointer into the list; nil while the Job runs.
func FinishedCondition(conditions []batchv1.JobCondition) *batchv1.JobCondition {
	for i := range conditions {
		c := &conditions[i]
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// IsFinished tells whether the Job is finished (upstream: IsJobFinished).
func IsFinished(j *batchv1.Job) bool { return FinishedCondition(j.Status.Conditions) != nil }
