// Package defaultstorageclass is the admission plugin DefaultStorageClass: a PersistentVolumeClaim
// that names no StorageClass gets the default one.
//
// In: a PersistentVolumeClaim being created, the StorageClasses. Out: spec.storageClassName.
package defaultstorageclass

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/apiserver/admission/defaultclass"
)

// Annotations that mark a class as the default.
const (
	isDefault     = "storageclass.kubernetes.io/is-default-class"
	isDefaultBeta = "storageclass.beta.kubernetes.io/is-default-class"
)

// New returns the plugin.
func New() *defaultclass.Plugin[*storagev1.StorageClass] {
	return defaultclass.NewPlugin(defaultclass.Rule[*storagev1.StorageClass]{
		NoInformer: "default storage class admission: no informer of StorageClasses",
		Classes: func(f informers.SharedInformerFactory) (defaultclass.Lister[*storagev1.StorageClass],
			cache.SharedIndexInformer) {
			i := f.Storage().V1().StorageClasses()
			return i.Lister(), i.Informer()
		},
		ClassName:   className,
		Annotations: []string{isDefault, isDefaultBeta},
	})
}

// className returns the field of a claim that names its class; nil if the class is named.
func className(obj runtime.Object) **string {
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok || claim.Spec.StorageClassName != nil {
		return nil
	}
	if _, named := claim.Annotations[corev1.BetaStorageClassAnnotation]; named {
		return nil
	}
	return &claim.Spec.StorageClassName
}
