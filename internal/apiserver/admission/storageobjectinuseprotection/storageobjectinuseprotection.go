// Package storageobjectinuseprotection is the admission plugin StorageObjectInUseProtection: it
// adds the protection finalizers of PersistentVolumes, PersistentVolumeClaims and
// VolumeAttributesClasses, so that none is removed while it is in use.
//
// In: one of them being created. Out: the finalizer that the protection controllers take off when
// nothing uses it.
package storageobjectinuseprotection

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
)

// The finalizers.
const (
	ClaimFinalizer  = "kubernetes.io/pvc-protection"
	VolumeFinalizer = "kubernetes.io/pv-protection"
	ClassFinalizer  = "kubernetes.io/vac-protection"
)

// Plugin is the mutating plugin StorageObjectInUseProtection.
type Plugin struct{ *admission.Handler }

// New makes it.
func New() *Plugin { return &Plugin{admission.NewHandler(admission.Create)} }

// Admit implements admission.MutationInterface.
func (*Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" {
		return nil
	}
	switch o := a.GetObject().(type) {
	case *corev1.PersistentVolumeClaim:
		protect(&o.ObjectMeta, ClaimFinalizer)
	case *corev1.PersistentVolume:
		protect(&o.ObjectMeta, VolumeFinalizer)
	case *storagev1.VolumeAttributesClass:
		protect(&o.ObjectMeta, ClassFinalizer)
	}
	return nil
}

func protect(m *metav1.ObjectMeta, finalizer string) {
	if !slices.Contains(m.Finalizers, finalizer) {
		m.Finalizers = append(m.Finalizers, finalizer)
	}
}
