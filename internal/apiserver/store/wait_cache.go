package store

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// cacheStartWait is how long a list or watch waits for a watch cache that is being filled. Later it
// gets upstream's 429 "storage is (re)initializing", which spares etcd the lists of large kinds.
const cacheStartWait = time.Second

// waitingStorage is a cached storage whose lists and watches wait for a cache that is not filled
// yet, at most cacheStartWait. A kind that a CustomResourceDefinition has just brought is first
// asked for within its first milliseconds, also by callers that do not ask again after 429: the
// controller that deletes a definition's objects would leave the definition Terminating for
// minutes.
type waitingStorage struct {
	storage.Interface
	cache filledCache
}

// filledCache is a watch cache: Ready tells whether it is filled, Wait waits until it is.
type filledCache interface {
	Ready() bool
	Wait(ctx context.Context) error
}

// waitReady returns when the cache is filled, when ctx ends, or after cacheStartWait.
func (s waitingStorage) waitReady(ctx context.Context) {
	if s.cache.Ready() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cacheStartWait)
	defer cancel()
	_ = s.cache.Wait(ctx) // a cache that is not ready then says so itself
}

// GetList implements storage.Interface.
func (s waitingStorage) GetList(ctx context.Context, key string, o storage.ListOptions, list runtime.Object) error {
	s.waitReady(ctx)
	return s.Interface.GetList(ctx, key, o, list)
}

// Watch implements storage.Interface.
func (s waitingStorage) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	s.waitReady(ctx)
	return s.Interface.Watch(ctx, key, o)
}
