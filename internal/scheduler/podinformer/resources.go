package podinformer

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// resourceType is a resource that is read here.
type resourceType struct {
	schema.GroupVersionKind
	resource   string         // in URLs
	listKind   string         // kind of a list
	object     runtime.Object // the type that an informer is asked for by
	decodeOne  func(s *valueCache, raw []byte) (runtime.Object, error)
	decodeList func(s *valueCache, raw []byte) (runtime.Object, error)
}

// resourceTypes are the resources of which several changes come for each Pod. Plugins read
// everything of claims and volumes but their managed fields.
var resourceTypes = []resourceType{
	resourceTypeOf(v1.SchemeGroupVersion.WithKind("Pod"), "pods", (*valueCache).decodePod,
		func(l *v1.PodList) (*metav1.ListMeta, *[]v1.Pod) { return &l.ListMeta, &l.Items }),
	resourceTypeOf(v1.SchemeGroupVersion.WithKind("PersistentVolume"),
		"persistentvolumes", decodeTrimmedObject[v1.PersistentVolume],
		func(l *v1.PersistentVolumeList) (*metav1.ListMeta, *[]v1.PersistentVolume) {
			return &l.ListMeta, &l.Items
		}),
	resourceTypeOf(v1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
		"persistentvolumeclaims", decodeTrimmedObject[v1.PersistentVolumeClaim],
		func(l *v1.PersistentVolumeClaimList) (*metav1.ListMeta, *[]v1.PersistentVolumeClaim) {
			return &l.ListMeta, &l.Items
		}),
	resourceTypeOf(resourceapi.SchemeGroupVersion.WithKind("ResourceClaim"),
		"resourceclaims", decodeTrimmedObject[resourceapi.ResourceClaim],
		func(l *resourceapi.ResourceClaimList) (*metav1.ListMeta, *[]resourceapi.ResourceClaim) {
			return &l.ListMeta, &l.Items
		}),
}

// object is a pointer to a T of the API.
type object[T any] interface {
	*T
	runtime.Object
}

// resourceTypeOf makes a row from how an object is decoded, and where its list keeps its items.
func resourceTypeOf[T, L any, P object[T], Q object[L]](kind schema.GroupVersionKind, resource string,
	read func(*valueCache, []byte, P) error, parts func(Q) (*metav1.ListMeta, *[]T)) resourceType {
	return resourceType{
		GroupVersionKind: kind, resource: resource, listKind: kind.Kind + "List", object: P(new(T)),
		decodeOne: func(s *valueCache, raw []byte) (runtime.Object, error) {
			o := P(new(T))
			return o, read(s, raw, o)
		},
		decodeList: func(s *valueCache, raw []byte) (runtime.Object, error) {
			l := Q(new(L))
			meta, items := parts(l)
			return l, eachItem(raw, meta, func(raw []byte) error {
				*items = append(*items, *new(T))
				return read(s, raw, P(&(*items)[len(*items)-1]))
			})
		},
	}
}

// decodeTrimmedObject decodes an object without the metadata that no plugin reads.
func decodeTrimmedObject[T any, P interface {
	object[T]
	Unmarshal([]byte) error
}](s *valueCache, raw []byte, o P) error {
	var err error
	if s.buffer, err = allFields.trim(s.buffer[:0], raw); err != nil {
		return err
	}
	return o.Unmarshal(s.buffer)
}
