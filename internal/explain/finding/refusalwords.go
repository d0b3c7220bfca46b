package finding

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refusal is how the API server refused what a workload makes: its newest event of it, or, where
// there is none, as events are dropped and end, its condition ReplicaFailure. Empty: nothing is
// refused.
func (c *Cluster) refusal(o metav1.Object, self Object) (reason, words string) {
	e := c.newestEvent(self, func(e *corev1.Event) bool {
		return e.Reason == "FailedCreate" || e.Reason == "ReplicaSetCreateError"
	})
	if e != nil && c.Now.Sub(eventTime(e)) <= eventWindow {
		return e.Reason, e.Message
	}
	switch x := o.(type) {
	case *appsv1.Deployment:
		for _, cond := range x.Status.Conditions {
			if cond.Type == appsv1.DeploymentReplicaFailure && cond.Status == corev1.ConditionTrue {
				return cond.Reason, cond.Message
			}
		}
	case *appsv1.ReplicaSet:
		for _, cond := range x.Status.Conditions {
			if cond.Type == appsv1.ReplicaSetReplicaFailure && cond.Status == corev1.ConditionTrue {
				return cond.Reason, cond.Message
			}
		}
	}
	return "", ""
}

// refuses reports whether words are those of a quota, webhook or policy that refuses.
func refuses(words string) bool {
	return quotaWords.MatchString(words) || webhookWords.MatchString(words) || policyWords.MatchString(words)
}
