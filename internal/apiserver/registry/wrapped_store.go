package registry

import (
	"context"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// storeWriter is what a storage around a store may replace.
type storeWriter interface {
	rest.CreaterUpdater
	rest.GracefulDeleter
}

// wrappedStore is a store whose writes go through another storage; names, reads and tables stay the
// store's.
type wrappedStore struct {
	*Store
	writer storeWriter
}

// wrapStore returns the storage to serve for s: writes go through rules, the rest to s. If rules
// cannot delete collections, the result does not offer that verb.
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

// Create implements rest.Creater.
func (w *wrappedStore) Create(ctx context.Context, obj runtime.Object, v rest.ValidateObjectFunc,
	o *metav1.CreateOptions) (runtime.Object, error) {
	return w.writer.Create(ctx, obj, v, o)
}

// Update implements rest.Updater.
func (w *wrappedStore) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, force bool,
	o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return w.writer.Update(ctx, name, info, create, update, force, o)
}

// Delete implements rest.GracefulDeleter.
func (w *wrappedStore) Delete(ctx context.Context, name string, v rest.ValidateObjectFunc,
	o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return w.writer.Delete(ctx, name, v, o)
}

// wrappedStoreDeletingCollections is a wrappedStore with deletecollection.
type wrappedStoreDeletingCollections struct {
	wrappedStore
	collectionDeleter rest.CollectionDeleter
}

// DeleteCollection implements rest.CollectionDeleter.
func (w *wrappedStoreDeletingCollections) DeleteCollection(ctx context.Context, v rest.ValidateObjectFunc,
	o *metav1.DeleteOptions, l *metainternalversion.ListOptions) (runtime.Object, error) {
	return w.collectionDeleter.DeleteCollection(ctx, v, o, l)
}

// wrappedStoreWithoutCollections is a wrappedStore without deletecollection: a method of another
// signature hides that of the embedded Store, so that it does not implement rest.CollectionDeleter.
type wrappedStoreWithoutCollections struct{ wrappedStore }

// DeleteCollection hides the Store's.
func (*wrappedStoreWithoutCollections) DeleteCollection() {}
