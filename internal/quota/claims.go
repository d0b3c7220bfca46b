package quota

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// classSuffix joins a storage class and what is counted of its claims.
const classSuffix = ".storageclass.storage.k8s.io/"

// claims evaluates PersistentVolumeClaims: their number and requested storage, in total and by
// class.
func claims(list func(schema.GroupResource) generic.ListFuncByNamespace) quota.Evaluator {
	gr := schema.GroupResource{Resource: "persistentvolumeclaims"}
	return &evaluator[*corev1.PersistentVolumeClaim]{
		resource: gr, list: list(gr),
		operations: map[string][]admission.Operation{"": {admission.Create, admission.Update}},
		counts: func(n corev1.ResourceName) bool {
			if _, what, ok := strings.Cut(string(n), classSuffix); ok {
				n = corev1.ResourceName(what)
			}
			return n == corev1.ResourcePersistentVolumeClaims || n == corev1.ResourceRequestsStorage
		},
		usage: claimUsage,
		scope: func(s corev1.ScopedResourceSelectorRequirement, c *corev1.PersistentVolumeClaim) (bool, error) {
			if s.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
				return false, nil
			}
			return named(s, ptr.Deref(c.Spec.VolumeAttributesClassName, ""))
		},
	}
}

// claimUsage counts the larger of requested and allocated storage, so that a failed expansion still
// counts.
func claimUsage(c *corev1.PersistentVolumeClaim) corev1.ResourceList {
	one := *resource.NewQuantity(1, resource.DecimalSI)
	out := corev1.ResourceList{"count/persistentvolumeclaims": one, corev1.ResourcePersistentVolumeClaims: one}
	class := volume.GetPersistentVolumeClaimClass(c)
	if class != "" {
		out[corev1.ResourceName(class)+classSuffix+corev1.ResourcePersistentVolumeClaims] = one
	}
	requested, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return out
	}
	if had, ok := c.Status.AllocatedResources[corev1.ResourceStorage]; ok && had.Cmp(requested) > 0 {
		requested = had
	}
	out[corev1.ResourceRequestsStorage] = requested
	if class != "" {
		out[corev1.ResourceName(class)+classSuffix+corev1.ResourceRequestsStorage] = requested
	}
	return out
}
