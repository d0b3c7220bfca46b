package scheme

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// addLegacyVersions makes kinds known under versions that were served once, read as what they are
// now. They are not served: a request that carries one is told that its version does not match the
// path, as upstream tells it.
func addLegacyVersions(s *runtime.Scheme) error {
	for gv, objects := range map[schema.GroupVersion][]runtime.Object{
		{Group: policyv1.GroupName, Version: "v1beta1"}: {&policyv1.PodDisruptionBudget{}},
		{Group: batchv1.GroupName, Version: "v1beta1"}:  {&batchv1.CronJob{}},
		{Group: appsv1.GroupName, Version: "v1beta1"}: {&appsv1.Deployment{}, &appsv1.StatefulSet{},
			&appsv1.ControllerRevision{}},
		{Group: appsv1.GroupName, Version: "v1beta2"}: {
			&appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1.ControllerRevision{}, &appsv1.ReplicaSet{},
			&appsv1.DaemonSet{},
		},
	} {
		s.AddKnownTypes(gv, objects...)
	}
	return nil
}
