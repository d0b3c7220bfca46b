// Package defaultstorageclass gives a claim that names no StorageClass the default one.
//
// In: a PersistentVolumeClaim being created, the StorageClasses. Out: spec.storageClassName.
package defaultstorageclass

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	storagelisters "k8s.io/client-go/listers/storage/v1"

	"github.com/gantry-project/gantry/internal/apiserver/admission/defaultclass"
)

// Annotations that mark a class as the default.
const (
	isDefault     = "storageclass.kubernetes.io/is-default-class"
	isDefaultBeta = "storageclass.beta.kubernetes.io/is-default-class"
)

// Plugin is the mutating plugin DefaultStorageClass.
type Plugin struct {
	*admission.Handler
	classes storagelisters.StorageClassLister
}

// New makes it.
func New() *Plugin { return &Plugin{Handler: admission.NewHandler(admission.Create)} }

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	i := f.Storage().V1().StorageClasses()
	p.classes = i.Lister()
	p.SetReadyFunc(i.Informer().HasSynced)
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.classes == nil {
		return errors.New("default storage class admission: no informer of StorageClasses")
	}
	return nil
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	claim, ok := a.GetObject().(*corev1.PersistentVolumeClaim)
	if !ok || a.GetSubresource() != "" || claim.Spec.StorageClassName != nil {
		return nil
	}
	if _, named := claim.Annotations[corev1.BetaStorageClassAnnotation]; named {
		return nil
	}
	if !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	list, err := p.classes.List(labels.Everything())
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if c, ok := defaultclass.NewestDefault(list, isDefault, isDefaultBeta); ok {
		name := c.Name
		claim.Spec.StorageClassName = &name
	}
	return nil
}
