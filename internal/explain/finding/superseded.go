package finding

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// superseded reports whether an object is a ReplicaSet of an older template that its Deployment has
// scaled to zero: what is wrong with that template concerns nobody any more.
func superseded(o metav1.Object) bool {
	r, ok := o.(*appsv1.ReplicaSet)
	return ok && metav1.GetControllerOf(r) != nil && r.Spec.Replicas != nil && *r.Spec.Replicas == 0 &&
		r.Status.Replicas == 0
}
