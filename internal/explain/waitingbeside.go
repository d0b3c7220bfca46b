package explain

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// waitingBeside are the other Pods of the same controller that wait for a node.
func (in In) waitingBeside() []*corev1.Pod {
	own := metav1.GetControllerOf(in.Pod)
	if own == nil {
		return nil
	}
	var out []*corev1.Pod
	for _, p := range in.ClusterContext.Pods {
		o := metav1.GetControllerOf(p)
		if o != nil && o.UID == own.UID && p.UID != in.Pod.UID && p.Spec.NodeName == "" && p.DeletionTimestamp == nil &&
			len(p.Spec.SchedulingGates) == 0 && p.Status.Phase == corev1.PodPending {
			out = append(out, p)
		}
	}
	return out
}
