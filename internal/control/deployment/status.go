package deployment

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Status returns the status. created names a set that was just created, failure says why creation
// failed. The duration is the time until the progress deadline.
func Status(in In, created string, failure error) (appsv1.DeploymentStatus, time.Duration) {
	d := in.Deployment
	cur, old := FindReplicaSets(in)
	s := *d.Status.DeepCopy()
	all := append(append([]*appsv1.ReplicaSet{}, old...), cur)
	s.ObservedGeneration = d.Generation
	s.Replicas = sum(all, func(rs *appsv1.ReplicaSet) int32 { return rs.Status.Replicas })
	s.ReadyReplicas = sum(all, func(rs *appsv1.ReplicaSet) int32 { return rs.Status.ReadyReplicas })
	s.AvailableReplicas = sum(all, available)
	s.UnavailableReplicas = max(0, sum(all, size)-s.AvailableReplicas)
	s.UpdatedReplicas = 0
	if cur != nil {
		s.UpdatedReplicas = cur.Status.Replicas
	}
	ending := sum(all, func(rs *appsv1.ReplicaSet) int32 {
		if rs.Status.TerminatingReplicas == nil {
			return 0
		}
		return *rs.Status.TerminatingReplicas
	})
	s.TerminatingReplicas = &ending
	now := metav1.NewTime(in.Now)
	_, unavailable := Limits(d)
	if s.AvailableReplicas >= replicasOf(d)-unavailable {
		setCondition(&s, appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue,
			Reason: "MinimumReplicasAvailable", Message: "Deployment has minimum availability."}, now)
	} else {
		setCondition(&s, appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse,
			Reason: "MinimumReplicasUnavailable", Message: "Deployment does not have minimum availability."}, now)
	}
	again := syncProgress(in, &s, cur, created)
	replicaFailure(&s, append(old, cur), failure, now)
	return s, again
}

// syncProgress updates the Progressing condition and returns the time until the deadline.
func syncProgress(in In, s *appsv1.DeploymentStatus, cur *appsv1.ReplicaSet, created string) time.Duration {
	d, now := in.Deployment, metav1.NewTime(in.Now)
	if d.Spec.ProgressDeadlineSeconds == nil || *d.Spec.ProgressDeadlineSeconds == 1<<31-1 {
		removeCondition(s, appsv1.DeploymentProgressing)
		return 0
	}
	have := getCondition(s, appsv1.DeploymentProgressing)
	say := func(status corev1.ConditionStatus, reason, message string) {
		setCondition(s, appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: status, Reason: reason,
			Message: message}, now)
	}
	name := ""
	if cur != nil {
		name = cur.Name
	}
	switch {
	case d.Spec.Paused:
		if have == nil || have.Reason != "ProgressDeadlineExceeded" {
			say(corev1.ConditionUnknown, "DeploymentPaused", "Deployment is paused")
		}
		return 0
	case have != nil && have.Reason == "DeploymentPaused":
		say(corev1.ConditionUnknown, "DeploymentResumed", "Deployment is resumed")
	case have != nil && have.Reason == "NewReplicaSetAvailable" && created == "" && s.Replicas == s.UpdatedReplicas:
		return 0 // this rollout is complete; later changes of Pods are not progress
	case created != "":
		say(corev1.ConditionTrue, "NewReplicaSetCreated", fmt.Sprintf("Created new replica set %q", created))
	case Complete(d, *s):
		say(corev1.ConditionTrue, "NewReplicaSetAvailable", fmt.Sprintf("ReplicaSet %q has successfully progressed.",
			name))
		return 0
	case progressed(d.Status, *s):
		removeCondition(s, appsv1.DeploymentProgressing)
		c := appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue,
			Reason: "ReplicaSetUpdated", Message: fmt.Sprintf("ReplicaSet %q is progressing.", name)}
		setCondition(s, c, now)
		if have != nil && have.Status == corev1.ConditionTrue {
			getCondition(s, appsv1.DeploymentProgressing).LastTransitionTime = have.LastTransitionTime
		}
	case have != nil && cur != nil && cur.Annotations[revisionKey] != "" && have.Reason == "NewReplicaSetAvailable" &&
		d.Status.ObservedGeneration < d.Generation && !Complete(d, *s):
		if !cur.CreationTimestamp.Before(&have.LastUpdateTime) {
			// Created since the last rollout by a sync whose status was not written.
			say(corev1.ConditionTrue, "NewReplicaSetCreated", fmt.Sprintf("Created new replica set %q", name))
			break
		}
		say(corev1.ConditionTrue, "FoundNewReplicaSet", fmt.Sprintf("Found new replica set %q", name))
	}
	return deadline(in, s, name)
}

func deadline(in In, s *appsv1.DeploymentStatus, name string) time.Duration {
	have := getCondition(s, appsv1.DeploymentProgressing)
	if have == nil || have.Reason == "NewReplicaSetAvailable" || have.Reason == "ProgressDeadlineExceeded" {
		return 0
	}
	left := have.LastUpdateTime.Add(time.Duration(*in.Deployment.Spec.ProgressDeadlineSeconds) * time.Second).Sub(
		in.Now)
	if left > 0 {
		return left
	}
	setCondition(s, appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse,
		Reason:  "ProgressDeadlineExceeded",
		Message: fmt.Sprintf("ReplicaSet %q has timed out progressing.", name)}, metav1.NewTime(in.Now))
	return 0
}

// progressed reports whether a rollout came closer to its end.
func progressed(was, is appsv1.DeploymentStatus) bool {
	oldWas, oldIs := was.Replicas-was.UpdatedReplicas, is.Replicas-is.UpdatedReplicas
	return is.UpdatedReplicas > was.UpdatedReplicas || oldIs < oldWas || is.ReadyReplicas > was.ReadyReplicas ||
		is.AvailableReplicas > was.AvailableReplicas
}

// replicaFailure sets or removes the ReplicaFailure condition.
func replicaFailure(s *appsv1.DeploymentStatus, sets []*appsv1.ReplicaSet, failure error, now metav1.Time) {
	if failure != nil {
		setCondition(s, appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue,
			Reason: "ReplicaSetCreateError", Message: failure.Error()}, now)
		return
	}
	for _, rs := range sets {
		if rs == nil {
			continue
		}
		for _, c := range rs.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure {
				setCondition(s, appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: c.Status,
					Reason: c.Reason, Message: c.Message}, now)
				return
			}
		}
	}
	removeCondition(s, appsv1.DeploymentReplicaFailure)
}

func getCondition(s *appsv1.DeploymentStatus, typ appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == typ {
			return &s.Conditions[i]
		}
	}
	return nil
}

func removeCondition(s *appsv1.DeploymentStatus, typ appsv1.DeploymentConditionType) {
	var retained []appsv1.DeploymentCondition
	for _, c := range s.Conditions {
		if c.Type != typ {
			retained = append(retained, c)
		}
	}
	s.Conditions = retained
}

// setCondition replaces a condition unless status and reason are unchanged; the transition time
// changes only with the status. A replaced one moves to the end.
func setCondition(s *appsv1.DeploymentStatus, c appsv1.DeploymentCondition, now metav1.Time) {
	c.LastUpdateTime, c.LastTransitionTime = now, now
	if have := getCondition(s, c.Type); have != nil {
		if have.Status == c.Status && have.Reason == c.Reason &&
			(have.Message == c.Message || c.Type != appsv1.DeploymentReplicaFailure) {
			return
		}
		if have.Status == c.Status {
			c.LastTransitionTime = have.LastTransitionTime
		}
	}
	removeCondition(s, c.Type)
	s.Conditions = append(s.Conditions, c)
}
