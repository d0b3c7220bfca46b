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

	plugin "github.com/gantry-project/gantry/internal/apiserver/admission/defaultclass"
	"github.com/gantry-project/gantry/internal/defaultclass"
)

// New returns the plugin.
func New() *plugin.Plugin[*storagev1.StorageClass] {
	return plugin.NewPlugin(plugin.Rule[*storagev1.StorageClass]{
		NoInformer: "default storage class admission: no informer of StorageClasses",
		Classes: func(f informers.SharedInformerFactory) (plugin.Lister[*storagev1.StorageClass],
			cache.SharedIndexInformer) {
			i := f.Storage().V1().StorageClasses()
			return i.Lister(), i.Informer()
		},
		ClassName:   className,
		Annotations: []string{defaultclass.Storage, defaultclass.StorageBeta},
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
