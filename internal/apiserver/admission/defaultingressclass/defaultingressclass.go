// Package defaultingressclass gives an Ingress that names no class the default one.
//
// In: an Ingress being created, the IngressClasses. Out: spec.ingressClassName.
package defaultingressclass

import (
	"context"
	"errors"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	networkinglisters "k8s.io/client-go/listers/networking/v1"

	"github.com/gantry-project/gantry/internal/apiserver/admission/defaultclass"
)

// ingressClassAnnotation named the class before there was a field for it.
const ingressClassAnnotation = "kubernetes.io/ingress.class"

// Plugin is the mutating plugin DefaultIngressClass.
type Plugin struct {
	*admission.Handler
	classes networkinglisters.IngressClassLister
}

// New makes it.
func New() *Plugin { return &Plugin{Handler: admission.NewHandler(admission.Create)} }

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	i := f.Networking().V1().IngressClasses()
	p.classes = i.Lister()
	p.SetReadyFunc(i.Informer().HasSynced)
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.classes == nil {
		return errors.New("default ingress class admission: no informer of IngressClasses")
	}
	return nil
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	ingress, ok := a.GetObject().(*networkingv1.Ingress)
	if !ok || a.GetSubresource() != "" || ingress.Spec.IngressClassName != nil {
		return nil
	}
	if _, named := ingress.Annotations[ingressClassAnnotation]; named {
		return nil
	}
	if !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	list, err := p.classes.List(labels.Everything())
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if c, ok := defaultclass.NewestDefault(list, networkingv1.AnnotationIsDefaultIngressClass); ok {
		name := c.Name
		ingress.Spec.IngressClassName = &name
	}
	return nil
}
