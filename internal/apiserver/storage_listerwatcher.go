package apiserver

import (
	"context"
	"errors"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/tools/cache"
)

// errNotServed is the error for a resource that the server does not have.
var errNotServed = errors.New("this kind is not served")

// StorageListerWatcher returns a ListerWatcher of all objects of a store, for parts of this
// process, without the handler chain: objects are copied instead of encoded and decoded. There is
// no authorization: use it only for parts that may read all objects of the resource. Selectors are
// ignored.
func StorageListerWatcher(find func() rest.StandardStorage) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			store, in, err := storageAndListOptions(find, &o)
			if err != nil {
				return nil, err
			}
			list, err := store.List(request.WithNamespace(ctx, metav1.NamespaceAll), in)
			if err != nil {
				return nil, err
			}
			return list.DeepCopyObject(), nil // the watch cache shares parts of it
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			store, in, err := storageAndListOptions(find, &o)
			if err != nil {
				return nil, err
			}
			w, err := store.Watch(request.WithNamespace(ctx, metav1.NamespaceAll), in)
			if err != nil {
				return nil, err
			}
			return watch.Filter(w, withOwnObject), nil
		},
	}
}

// storageAndListOptions returns the store and the options in the library's internal form.
func storageAndListOptions(find func() rest.StandardStorage,
	o *metav1.ListOptions) (rest.StandardStorage, *metainternalversion.ListOptions, error) {
	store := find()
	if store == nil {
		return nil, nil, errNotServed
	}
	in := &metainternalversion.ListOptions{}
	if err := metainternalversion.Convert_v1_ListOptions_To_internalversion_ListOptions(o, in, nil); err != nil {
		return nil, nil, err
	}
	metainternalversion.SetListOptionsDefaults(in, true)
	return store, in, nil
}

// withOwnObject returns an event with a copy of an object that other watchers share. It is the
// function of watch.Filter and always returns true.
func withOwnObject(e watch.Event) (watch.Event, bool) {
	if shared, ok := e.Object.(runtime.CacheableObject); ok {
		e.Object = shared.GetObject() // a copy
	}
	return e, true
}
