// Package defaultingressclass is the admission plugin DefaultIngressClass: an Ingress that names no
// class gets the default one.
//
// In: an Ingress being created, the IngressClasses. Out: spec.ingressClassName.
package defaultingressclass

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/apiserver/admission/defaultclass"
)

// ingressClassAnnotation named the class before there was a field for it.
const ingressClassAnnotation = "kubernetes.io/ingress.class"

// New returns the plugin.
func New() *defaultclass.Plugin[*networkingv1.IngressClass] {
	return defaultclass.NewPlugin(defaultclass.Rule[*networkingv1.IngressClass]{
		NoInformer: "default ingress class admission: no informer of IngressClasses",
		Classes: func(f informers.SharedInformerFactory) (defaultclass.Lister[*networkingv1.IngressClass],
			cache.SharedIndexInformer) {
			i := f.Networking().V1().IngressClasses()
			return i.Lister(), i.Informer()
		},
		ClassName:   className,
		Annotations: []string{networkingv1.AnnotationIsDefaultIngressClass},
	})
}

// className returns the field of an Ingress that names its class; nil if the class is named.
func className(obj runtime.Object) **string {
	ingress, ok := obj.(*networkingv1.Ingress)
	if !ok || ingress.Spec.IngressClassName != nil {
		return nil
	}
	if _, named := ingress.Annotations[ingressClassAnnotation]; named {
		return nil
	}
	return &ingress.Spec.IngressClassName
}
