// Package persistentvolumeclaimresize is the admission plugin PersistentVolumeClaimResize: a claim
// may ask for more only if its StorageClass allows volume expansion.
//
// In: a PersistentVolumeClaim being updated, its StorageClass. Out: nothing, or a refusal.
package persistentvolumeclaimresize

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	storagelisters "k8s.io/client-go/listers/storage/v1"
)

// Plugin is the validating plugin PersistentVolumeClaimResize.
type Plugin struct {
	*admission.Handler
	classes storagelisters.StorageClassLister
}

// New makes it.
func New() *Plugin { return &Plugin{Handler: admission.NewHandler(admission.Update)} }

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	i := f.Storage().V1().StorageClasses()
	p.classes = i.Lister()
	p.SetReadyFunc(i.Informer().HasSynced)
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.classes == nil {
		return errors.New("claim resize admission: no informer of StorageClasses")
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("persistentvolumeclaims") || a.GetSubresource() != "" {
		return nil
	}
	claim, ok1 := a.GetObject().(*corev1.PersistentVolumeClaim)
	old, ok2 := a.GetOldObject().(*corev1.PersistentVolumeClaim)
	if !ok1 || !ok2 || !isExpansion(claim, old) {
		return nil
	}
	if old.Status.Phase != corev1.ClaimBound {
		return admission.NewForbidden(a, errors.New("Only bound persistent volume claims can be expanded"))
	}
	if !p.allowsExpansion(claim, old) {
		return admission.NewForbidden(a,
			errors.New("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc "+
				"must support resize"))
	}
	return nil
}

func isExpansion(claim, old *corev1.PersistentVolumeClaim) bool {
	now, previous := claim.Spec.Resources.Requests[corev1.ResourceStorage],
		old.Spec.Resources.Requests[corev1.ResourceStorage]
	return now.Cmp(previous) > 0
}

func (p *Plugin) allowsExpansion(claim, old *corev1.PersistentVolumeClaim) bool {
	name, previous := className(claim), className(old)
	if name == "" || name != previous || !p.WaitForReady() {
		return false
	}
	c, err := p.classes.Get(name)
	return err == nil && c.AllowVolumeExpansion != nil && *c.AllowVolumeExpansion
}

func className(c *corev1.PersistentVolumeClaim) string {
	if n, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return n
	}
	if c.Spec.StorageClassName != nil {
		return *c.Spec.StorageClassName
	}
	return ""
}
