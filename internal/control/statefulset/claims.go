package statefulset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// updatePod repairs a Pod's labels, missing claims and the owners of its claims.
func (c *controller) updatePod(ctx context.Context, set *appsv1.StatefulSet, p *corev1.Pod) error {
	if p.Status.Phase == corev1.PodPending && p.DeletionTimestamp == nil {
		if err := c.createClaims(ctx, set, Ordinal(set, p), p.Name); err != nil {
			return err
		}
	}
	if err := c.updateClaimOwners(ctx, set, p, false); err != nil {
		return err
	}
	if IdentityMatches(set, p) || p.DeletionTimestamp != nil {
		return nil
	}
	p = p.DeepCopy()
	updateIdentity(set, p, Ordinal(set, p))
	_, err := c.controllerContext.Client.CoreV1().Pods(p.Namespace).Update(ctx, p, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		c.controllerContext.Recorder.Eventf(set, corev1.EventTypeWarning, "FailedUpdate",
			"Update Pod %s in StatefulSet %s failed error: %s", p.Name, set.Name, err)
		return err
	}
	return nil
}

// createClaims creates missing claims of an ordinal. A claim that is being deleted is an error that
// delays the Pod.
func (c *controller) createClaims(ctx context.Context, set *appsv1.StatefulSet, ordinal int, pod string) error {
	for _, claim := range Claims(set, ordinal) {
		have, err := c.claims.PersistentVolumeClaims(claim.Namespace).Get(claim.Name)
		switch {
		case err == nil && have.DeletionTimestamp != nil:
			return apierrors.NewConflict(corev1.Resource("persistentvolumeclaims"), claim.Name, errTerminating)
		case err == nil:
			continue
		case !apierrors.IsNotFound(err):
			return err
		}
		claim.OwnerReferences, _ = ClaimOwnerRefs(set, nil, false, nil)
		_, err = c.controllerContext.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Create(ctx, claim,
			metav1.CreateOptions{})
		switch {
		case err == nil:
			c.controllerContext.Recorder.Eventf(set, corev1.EventTypeNormal, "SuccessfulCreate",
				"Create Claim %s Pod %s in StatefulSet %s success", claim.Name, pod, set.Name)
		case !apierrors.IsAlreadyExists(err):
			c.controllerContext.Recorder.Eventf(set, corev1.EventTypeWarning, "FailedCreate",
				"Create Claim %s for Pod %s in StatefulSet %s failed error: %s", claim.Name, pod, set.Name, err)
			return err
		}
	}
	return nil
}

// updateClaimOwners sets the claims' owner references by the retention policy.
func (c *controller) updateClaimOwners(ctx context.Context, set *appsv1.StatefulSet, p *corev1.Pod, leaves bool) error {
	for _, want := range Claims(set, Ordinal(set, p)) {
		claim, err := c.claims.PersistentVolumeClaims(want.Namespace).Get(want.Name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		owners, changed := ClaimOwnerRefs(set, p, leaves, claim.OwnerReferences)
		if !changed {
			continue
		}
		claim = claim.DeepCopy()
		claim.OwnerReferences = owners
		if _, err := c.controllerContext.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim,
			metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
