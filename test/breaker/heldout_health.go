package breaker

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// isWell tells whether an object is as its owner wants it, from its status alone, and says what it
// saw.
func (s scene) isWell(ctx context.Context, ask string) (well bool, saw string, err error) {
	kind, name, _ := strings.Cut(ask, "/")
	r, err := s.resourceOf(kind, s.namespace)
	if err != nil {
		return false, "", err
	}
	u, err := r.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return kind == "namespace", "gone", nil
	}
	if err != nil {
		return false, "", err
	}
	status, _, err := unstructured.NestedMap(u.Object, "status")
	if err != nil {
		return false, "", err
	}
	saw = fmt.Sprintf("deleted=%v %v", u.GetDeletionTimestamp() != nil, status)
	if u.GetDeletionTimestamp() != nil {
		return false, saw, nil
	}
	well, err = s.statusIsWell(ctx, kind, u)
	return well, saw, err
}

func (s scene) statusIsWell(ctx context.Context, kind string, u *unstructured.Unstructured) (bool, error) {
	switch kind {
	case "pod":
		return typed(u, podIsWell)
	case "deployment":
		return typed(u, func(d *appsv1.Deployment) bool {
			n := *d.Spec.Replicas
			return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == n &&
				d.Status.AvailableReplicas == n && d.Status.Replicas == n
		})
	case "statefulset":
		return typed(u, func(d *appsv1.StatefulSet) bool {
			return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == *d.Spec.Replicas &&
				d.Status.ReadyReplicas == *d.Spec.Replicas
		})
	case "daemonset":
		return typed(u, func(d *appsv1.DaemonSet) bool {
			return d.Status.DesiredNumberScheduled > 0 && d.Status.NumberAvailable == d.Status.DesiredNumberScheduled &&
				d.Status.UpdatedNumberScheduled == d.Status.DesiredNumberScheduled
		})
	case "job":
		return typed(u, func(j *batchv1.Job) bool { return has(j.Status.Conditions, batchv1.JobComplete) })
	case "pvc":
		return typed(u, func(c *corev1.PersistentVolumeClaim) bool { return c.Status.Phase == corev1.ClaimBound })
	case "service":
		return s.serviceIsWell(ctx, u)
	case "namespace":
		return false, nil
	}
	return false, fmt.Errorf("the status of a %s tells nothing", kind)
}

func typed[T any](u *unstructured.Unstructured, f func(*T) bool) (bool, error) {
	var o T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &o); err != nil {
		return false, err
	}
	return f(&o), nil
}

func podIsWell(p *corev1.Pod) bool {
	if p.Status.Phase == corev1.PodSucceeded {
		return true
	}
	ready := false
	for _, c := range p.Status.Conditions {
		switch c.Type {
		case corev1.PodReady:
			ready = c.Status == corev1.ConditionTrue
		case corev1.PodResizePending, corev1.PodResizeInProgress:
			return false
		}
	}
	return ready
}

func has(list []batchv1.JobCondition, t batchv1.JobConditionType) bool {
	for _, c := range list {
		if c.Type == t && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// serviceIsWell wants a ready endpoint with a port, and an address from outside where one is asked
// for.
func (s scene) serviceIsWell(ctx context.Context, u *unstructured.Unstructured) (bool, error) {
	if t, _, _ := unstructured.NestedString(u.Object, "spec", "type"); t == "LoadBalancer" {
		list, _, err := unstructured.NestedSlice(u.Object, "status", "loadBalancer", "ingress")
		return len(list) > 0, err
	}
	slices, err := s.client.DiscoveryV1().EndpointSlices(s.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: "kubernetes.io/service-name=" + u.GetName()})
	if err != nil {
		return false, err
	}
	for _, slice := range slices.Items {
		for _, e := range slice.Endpoints {
			if len(slice.Ports) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				return true, nil
			}
		}
	}
	return false, nil
}
