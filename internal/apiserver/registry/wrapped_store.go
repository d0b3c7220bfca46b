package registry

import (
	"context"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// storeWriter is what rules around a store may change.
type storeWriter interface {
	rest.CreaterUpdater
	rest.GracefulDeleter
}

// wrappedStore is a store whose writes go through rules around it; names, reads and tables stay the
// store's.
type wrappedStore struct {
	*Store
	writer storeWriter
}

// wrapStore serves a kind by its store with the rules given. Rules that delete no collections take
// that verb away.
func wrapStore(s *Store, rules rest.Storage) rest.Storage {
	w, ok := rules.(storeWriter)
	if !ok {
		return rules
	}
	if many, ok := rules.(rest.CollectionDeleter); ok {
		return &wrappedStoreDeletingCollections{wrappedStore{s, w}, many}
	}
	return &wrappedStoreWithoutCollections{wrappedStore{s, w}}
}

func (w *wrappedStore) Create(ctx context.Context, obj runtime.Object, v rest.ValidateObjectFunc,
	o *metav1.CreateOptions) (runtime.Object, error) {
	return w.writer.Create(ctx, obj, v, o)
}

func (w *wrappedStore) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, force bool,
	o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return w.writer.Update(ctx, name, info, create, update, force, o)
}

func (w *wrappedStore) Delete(ctx context.Context, name string, v rest.ValidateObjectFunc,
	o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return w.writer.Delete(ctx, name, v, o)
}

// wrappedStoreDeletingCollections also deletes collections by the rules.
type wrappedStoreDeletingCollections struct {
	wrappedStore
	collectionDeleter rest.CollectionDeleter
}

func (w *wrappedStoreDeletingCollections) DeleteCollection(ctx context.Context, v rest.ValidateObjectFunc,
	o *metav1.DeleteOptions, l *metainternalversion.ListOptions) (runtime.Object, error) {
	return w.collectionDeleter.DeleteCollection(ctx, v, o, l)
}

// wrappedStoreWithoutCollections offers no deletecollection: its method of that name is not the one
// the library asks for.
type wrappedStoreWithoutCollections struct{ wrappedStore }

// DeleteCollection shadows the store's.
func (*wrappedStoreWithoutCollections) DeleteCollection() {}
