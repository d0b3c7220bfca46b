package store

import (
	"context"
	"strconv"
	"sync"

	"google.golang.org/grpc/metadata"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// cacheSource is the storage that one watch cache is filled from. Its watch has a stream of its own
// in the shared client, as it has where each kind has a client: etcd tells how far it is only when
// no watch of a stream lags behind and none begins after the present revision, which other kinds'
// watches and those that pass by the caches often do.
type cacheSource struct {
	storage.Interface
	name string // tells the source from all others of the client

	mu     sync.Mutex
	stream int // counts them
	cancel context.CancelFunc
}

// Watch implements volumelisters.Interface. The cache has one watch at a time.
func (c *cacheSource) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	c.mu.Lock()
	ctx, cancel := context.WithCancel(c.onStreamLocked(ctx))
	c.cancel = cancel
	c.mu.Unlock()
	w, err := c.Interface.Watch(ctx, key, o)
	if err != nil {
		cancel()
	}
	return w, err
}

// RequestWatchProgress implements volumelisters.Interface, on the stream of the watch.
func (c *cacheSource) RequestWatchProgress(ctx context.Context) error {
	c.mu.Lock()
	ctx = c.onStreamLocked(ctx)
	c.mu.Unlock()
	return c.Interface.RequestWatchProgress(ctx)
}

// reopen ends the watch; the cache opens the next one where it is, on another stream.
func (c *cacheSource) reopen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream++
	if c.cancel != nil {
		c.cancel()
	}
}

// onStreamLocked makes calls go over the source's stream: the client has one for each set of
// metadata.
func (c *cacheSource) onStreamLocked(ctx context.Context) context.Context {
	return metadata.NewOutgoingContext(ctx, metadata.Pairs("cache", c.name, "stream", strconv.Itoa(c.stream)))
}

// newCacheSource makes a storage the source of a cache.
func (s *sharedClient) newCacheSource(raw storage.Interface, resource schema.GroupResource) *cacheSource {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.created++
	return &cacheSource{Interface: raw, name: resource.String() + "#" + strconv.Itoa(s.created)}
}
