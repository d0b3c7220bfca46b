package wire

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// row is a kind of objects that is read here.
type row struct {
	schema.GroupVersionKind
	resource string         // in addresses
	list     string         // kind of a list
	object   runtime.Object // what an informer is asked for by
	one      func(s *stock, raw []byte) (runtime.Object, error)
	many     func(s *stock, raw []byte) (runtime.Object, error)
}

// rows are the kinds of which several changes come for each Pod. All of a claim and of a volume matters to somebody, but for who wrote which field.
var rows = []row{
	rowOf(v1.SchemeGroupVersion.WithKind("Pod"), "pods", (*stock).pod, func(l *v1.PodList) (*metav1.ListMeta, *[]v1.Pod) { return &l.ListMeta, &l.Items }),
	rowOf(v1.SchemeGroupVersion.WithKind("PersistentVolume"), "persistentvolumes", trimmed[v1.PersistentVolume],
		func(l *v1.PersistentVolumeList) (*metav1.ListMeta, *[]v1.PersistentVolume) {
			return &l.ListMeta, &l.Items
		}),
	rowOf(v1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), "persistentvolumeclaims", trimmed[v1.PersistentVolumeClaim],
		func(l *v1.PersistentVolumeClaimList) (*metav1.ListMeta, *[]v1.PersistentVolumeClaim) {
			return &l.ListMeta, &l.Items
		}),
	rowOf(resourceapi.SchemeGroupVersion.WithKind("ResourceClaim"), "resourceclaims", trimmed[resourceapi.ResourceClaim],
		func(l *resourceapi.ResourceClaimList) (*metav1.ListMeta, *[]resourceapi.ResourceClaim) {
			return &l.ListMeta, &l.Items
		}),
}

// object is a pointer to a T of the API.
type object[T any] interface {
	*T
	runtime.Object
}

// rowOf makes a row of how one object is read into, and where a list has its parts.
func rowOf[T, L any, P object[T], Q object[L]](kind schema.GroupVersionKind, resource string, read func(*stock, []byte, P) error, parts func(Q) (*metav1.ListMeta, *[]T)) row {
	return row{
		GroupVersionKind: kind, resource: resource, list: kind.Kind + "List", object: P(new(T)),
		one: func(s *stock, raw []byte) (runtime.Object, error) {
			o := P(new(T))
			return o, read(s, raw, o)
		},
		many: func(s *stock, raw []byte) (runtime.Object, error) {
			l := Q(new(L))
			meta, items := parts(l)
			return l, eachItem(raw, meta, func(raw []byte) error {
				*items = append(*items, *new(T))
				return read(s, raw, P(&(*items)[len(*items)-1]))
			})
		},
	}
}

// trimmed reads an object without what nobody reads of its metadata.
func trimmed[T any, P interface {
	object[T]
	Unmarshal([]byte) error
}](s *stock, raw []byte, o P) error {
	var err error
	if s.room, err = whole.trim(s.room[:0], raw); err != nil {
		return err
	}
	return o.Unmarshal(s.room)
}
