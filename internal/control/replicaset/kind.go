package replicaset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// controllerKind adapts a kind with a number of Pods to ReplicaSets: ReplicaSets themselves, or
// ReplicationControllers.
type controllerKind interface {
	kind() schema.GroupVersionKind
	get(namespace, name string) (*appsv1.ReplicaSet, error)
	list(namespace string) []*appsv1.ReplicaSet
	writeStatus(ctx context.Context, rs *appsv1.ReplicaSet) error
}

type replicaSets struct {
	controllerContext controllerruntime.ControllerContext
	lister            appslisters.ReplicaSetLister
}

func (replicaSets) kind() schema.GroupVersionKind {
	return appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
}

func (s replicaSets) get(namespace, name string) (*appsv1.ReplicaSet, error) {
	return s.lister.ReplicaSets(namespace).Get(name)
}

func (s replicaSets) list(namespace string) []*appsv1.ReplicaSet {
	all, _ := s.lister.ReplicaSets(namespace).List(labels.Everything())
	return all
}

func (s replicaSets) writeStatus(ctx context.Context, rs *appsv1.ReplicaSet) error {
	_, err := s.controllerContext.Client.AppsV1().ReplicaSets(rs.Namespace).UpdateStatus(ctx, rs,
		metav1.UpdateOptions{})
	return err
}

type replicationControllers struct {
	controllerContext controllerruntime.ControllerContext
	lister            corelisters.ReplicationControllerLister
}

func (replicationControllers) kind() schema.GroupVersionKind {
	return corev1.SchemeGroupVersion.WithKind("ReplicationController")
}

func (r replicationControllers) get(namespace, name string) (*appsv1.ReplicaSet, error) {
	rc, err := r.lister.ReplicationControllers(namespace).Get(name)
	if err != nil {
		return nil, err
	}
	return replicaSetOf(rc), nil
}

func (r replicationControllers) list(namespace string) []*appsv1.ReplicaSet {
	all, _ := r.lister.ReplicationControllers(namespace).List(labels.Everything())
	var out []*appsv1.ReplicaSet
	for _, rc := range all {
		out = append(out, replicaSetOf(rc))
	}
	return out
}

func (r replicationControllers) writeStatus(ctx context.Context, rs *appsv1.ReplicaSet) error {
	rc, err := r.lister.ReplicationControllers(rs.Namespace).Get(rs.Name)
	if err != nil {
		return err
	}
	rc = rc.DeepCopy()
	rc.ResourceVersion = rs.ResourceVersion
	s := rs.Status
	rc.Status = corev1.ReplicationControllerStatus{
		Replicas: s.Replicas, FullyLabeledReplicas: s.FullyLabeledReplicas, ReadyReplicas: s.ReadyReplicas,
		AvailableReplicas: s.AvailableReplicas, ObservedGeneration: s.ObservedGeneration,
	}
	for _, c := range s.Conditions {
		rc.Status.Conditions = append(rc.Status.Conditions, corev1.ReplicationControllerCondition{
			Type: corev1.ReplicationControllerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	_, err = r.controllerContext.Client.CoreV1().ReplicationControllers(rc.Namespace).UpdateStatus(ctx, rc,
		metav1.UpdateOptions{})
	return err
}

// replicaSetOf converts a ReplicationController to a ReplicaSet. Its TypeMeta names the original
// kind, for events.
func replicaSetOf(rc *corev1.ReplicationController) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ReplicationController"},
		ObjectMeta: *rc.ObjectMeta.DeepCopy(),
		Spec: appsv1.ReplicaSetSpec{
			Replicas: rc.Spec.Replicas, MinReadySeconds: rc.Spec.MinReadySeconds,
			Selector: &metav1.LabelSelector{MatchLabels: rc.Spec.Selector},
		},
		Status: appsv1.ReplicaSetStatus{
			Replicas: rc.Status.Replicas, FullyLabeledReplicas: rc.Status.FullyLabeledReplicas,
			ReadyReplicas:     rc.Status.ReadyReplicas,
			AvailableReplicas: rc.Status.AvailableReplicas, ObservedGeneration: rc.Status.ObservedGeneration,
		},
	}
	if rc.Spec.Template != nil {
		rs.Spec.Template = *rc.Spec.Template.DeepCopy()
	}
	for _, c := range rc.Status.Conditions {
		rs.Status.Conditions = append(rs.Status.Conditions, appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime,
			Reason: c.Reason, Message: c.Message,
		})
	}
	return rs
}
