package noderestriction

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	podutil "github.com/gantry-project/gantry/internal/pod"
)

func (p *Plugin) admitPod(ctx context.Context, name string, a admission.Attributes) error {
	switch a.GetSubresource() {
	case "":
		switch a.GetOperation() {
		case admission.Create:
			return p.admitPodCreate(ctx, name, a)
		case admission.Delete:
			// as stored: another Pod of this name may be on another node by now
			pod, err := p.storedPod(ctx, a.GetNamespace(), a.GetName())
			if err != nil {
				return err
			}
			if pod.Spec.NodeName != name {
				return fmt.Errorf("node %q can only delete pods with spec.nodeName set to itself", name)
			}
			return nil
		}
		return fmt.Errorf("unexpected operation %q, node %q can only create and delete mirror pods", a.GetOperation(),
			name)
	case "status":
		return admitPodStatus(name, a)
	case "eviction":
		return p.admitPodEviction(ctx, name, a)
	}
	return fmt.Errorf("unexpected pod subresource %q, only 'status' and 'eviction' are allowed", a.GetSubresource())
}

// admitPodCreate lets a node write down its static Pods: bound to itself, owned by itself, needing
// no other object.
func (p *Plugin) admitPodCreate(ctx context.Context, name string, a admission.Attributes) error {
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return fmt.Errorf("unexpected type %T", a.GetObject())
	}
	if !podutil.IsMirror(pod) {
		return fmt.Errorf("pod does not have %q annotation, node %q can only create mirror pods",
			corev1.MirrorPodAnnotationKey, name)
	}
	if pod.Spec.NodeName != name {
		return fmt.Errorf("node %q can only create pods with spec.nodeName set to itself", name)
	}
	if err := p.checkOwner(ctx, name, pod); err != nil {
		return err
	}
	if pod.Spec.ServiceAccountName != "" {
		return fmt.Errorf("node %q can not create pods that reference a service account", name)
	}
	return checkReferences(name, pod)
}

func (p *Plugin) checkOwner(ctx context.Context, name string, pod *corev1.Pod) error {
	if len(pod.OwnerReferences) == 0 {
		return fmt.Errorf("node %q can only create pods with an owner reference set to itself", name)
	}
	if len(pod.OwnerReferences) > 1 {
		return fmt.Errorf("node %q can only create pods with a single owner reference set to itself", name)
	}
	o := pod.OwnerReferences[0]
	switch {
	case o.APIVersion != "v1" || o.Kind != "Node" || o.Name != name:
		return fmt.Errorf("node %q can only create pods with an owner reference set to itself", name)
	case o.Controller == nil || !*o.Controller:
		return fmt.Errorf("node %q can only create pods with a controller owner reference set to itself", name)
	case o.BlockOwnerDeletion != nil && *o.BlockOwnerDeletion:
		return fmt.Errorf("node %q must not set blockOwnerDeletion on an owner reference", name)
	}
	n, err := p.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if o.UID != n.UID {
		return fmt.Errorf("node %s UID mismatch: expected %s got %s", name, o.UID, n.UID)
	}
	return nil
}

// checkReferences refuses a Pod that would widen what its node may read.
func checkReferences(name string, pod *corev1.Pod) error {
	secrets, configMaps := len(pod.Spec.ImagePullSecrets) > 0, false
	containers := append(append([]corev1.Container(nil), pod.Spec.InitContainers...), pod.Spec.Containers...)
	for _, c := range containers {
		for _, f := range c.EnvFrom {
			secrets = secrets || f.SecretRef != nil
			configMaps = configMaps || f.ConfigMapRef != nil
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil {
				secrets = secrets || e.ValueFrom.SecretKeyRef != nil
				configMaps = configMaps || e.ValueFrom.ConfigMapKeyRef != nil
			}
		}
	}
	claims := false
	for _, v := range pod.Spec.Volumes {
		secrets = secrets || v.Secret != nil
		configMaps = configMaps || v.ConfigMap != nil
		claims = claims || podutil.IsClaim(&v)
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			secrets = secrets || s.Secret != nil || s.ServiceAccountToken != nil
			configMaps = configMaps || s.ConfigMap != nil
		}
	}
	switch {
	case secrets:
		return fmt.Errorf("node %q can not create pods that reference secrets", name)
	case configMaps:
		return fmt.Errorf("node %q can not create pods that reference configmaps", name)
	case claims:
		return fmt.Errorf("node %q can not create pods that reference persistentvolumeclaims", name)
	case len(pod.Spec.ResourceClaims) > 0:
		return fmt.Errorf("node %q can not create pods that reference resourceclaims", name)
	}
	return nil
}

func admitPodStatus(name string, a admission.Attributes) error {
	if a.GetOperation() != admission.Update {
		return fmt.Errorf("unexpected operation %q, node %q can only update pod status", a.GetOperation(), name)
	}
	old, ok1 := a.GetOldObject().(*corev1.Pod)
	pod, ok2 := a.GetObject().(*corev1.Pod)
	switch {
	case !ok1 || !ok2:
		return fmt.Errorf("unexpected type %T", a.GetObject())
	case old.Spec.NodeName != name:
		return fmt.Errorf("node %q can only update pod status for pods with spec.nodeName set to itself", name)
	case !maps.Equal(old.Labels, pod.Labels):
		return fmt.Errorf("node %q cannot update labels through pod status", name)
	case !equality.Semantic.DeepEqual(old.Status.ResourceClaimStatuses, pod.Status.ResourceClaimStatuses):
		return fmt.Errorf("node %q cannot update resource claim statues", name) // upstream's spelling
	case !equality.Semantic.DeepEqual(old.Status.ExtendedResourceClaimStatus, pod.Status.ExtendedResourceClaimStatus):
		return fmt.Errorf("node %q cannot update extended resource claim status", name)
	case !equality.Semantic.DeepEqual(old.Status.NodeAllocatableResourceClaimStatuses,
		pod.Status.NodeAllocatableResourceClaimStatuses):
		return fmt.Errorf("node %q cannot update node allocatable resource claim statuses", name)
	}
	return nil
}

func (p *Plugin) admitPodEviction(ctx context.Context, name string, a admission.Attributes) error {
	if a.GetOperation() != admission.Create {
		return fmt.Errorf("unexpected operation %s", a.GetOperation())
	}
	e, ok := a.GetObject().(*policyv1.Eviction)
	if !ok {
		return fmt.Errorf("unexpected type %T", a.GetObject())
	}
	target := a.GetName()
	if target == "" {
		target = e.Name
	}
	if target == "" {
		return errors.New("could not determine pod from request data")
	}
	pod, err := p.storedPod(ctx, a.GetNamespace(), target)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName != name {
		return fmt.Errorf("node %s can only evict pods with spec.nodeName set to itself", name)
	}
	return nil
}
