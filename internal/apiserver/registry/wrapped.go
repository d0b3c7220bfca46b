package registry

import (
	"context"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// writer is what rules around a store may change.
type writer interface {
	rest.CreaterUpdater
	rest.GracefulDeleter
}

// wrapped is a store whose writes go through rules around it; names, reads and tables stay the store's.
type wrapped struct {
	*Store
	rules writer
}

// wrap serves a kind by its store with the rules given. Rules that delete no collections take that verb away.
func wrap(s *Store, rules rest.Storage) rest.Storage {
	w, ok := rules.(writer)
	if !ok {
		return rules
	}
	if many, ok := rules.(rest.CollectionDeleter); ok {
		return &wrappedAll{wrapped{s, w}, many}
	}
	return &wrappedOne{wrapped{s, w}}
}

func (w *wrapped) Create(ctx context.Context, obj runtime.Object, v rest.ValidateObjectFunc, o *metav1.CreateOptions) (runtime.Object, error) {
	return w.rules.Create(ctx, obj, v, o)
}

func (w *wrapped) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, force bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return w.rules.Update(ctx, name, info, create, update, force, o)
}

func (w *wrapped) Delete(ctx context.Context, name string, v rest.ValidateObjectFunc, o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return w.rules.Delete(ctx, name, v, o)
}

// wrappedAll also deletes collections by the rules.
type wrappedAll struct {
	wrapped
	many rest.CollectionDeleter
}

func (w *wrappedAll) DeleteCollection(ctx context.Context, v rest.ValidateObjectFunc, o *metav1.DeleteOptions, l *metainternalversion.ListOptions) (runtime.Object, error) {
	return w.many.DeleteCollection(ctx, v, o, l)
}

// wrappedOne offers no deletecollection: its method of that name is not the one the library asks for.
type wrappedOne struct{ wrapped }

// DeleteCollection shadows the store's.
func (*wrappedOne) DeleteCollection() {}
