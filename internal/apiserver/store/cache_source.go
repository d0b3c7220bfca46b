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

// cacheSource is the storage that one watch cache is filled from. Its watch has a gRPC stream of
// its own within the shared client, as it has upstream, where each resource has a client: etcd
// answers a progress request only while no watch of the stream lags behind or starts after the
// current revision, as watches of other resources and uncached ones often do.
type cacheSource struct {
	storage.Interface
	name string // unique within the client

	mu     sync.Mutex
	stream int                // number of the current stream
	cancel context.CancelFunc // ends the current watch
}

// Watch implements storage.Interface. A cache has one watch at a time.
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

// RequestWatchProgress implements storage.Interface, on the stream of the cache's watch.
func (c *cacheSource) RequestWatchProgress(ctx context.Context) error {
	c.mu.Lock()
	ctx = c.onStreamLocked(ctx)
	c.mu.Unlock()
	return c.Interface.RequestWatchProgress(ctx)
}

// reopen ends the watch; the cache's reflector opens the next one at its revision, on a new stream.
func (c *cacheSource) reopen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream++
	if c.cancel != nil {
		c.cancel()
	}
}

// onStreamLocked returns a context whose calls use the source's stream: the etcd client has one
// stream for each set of outgoing metadata. c.mu is held.
func (c *cacheSource) onStreamLocked(ctx context.Context) context.Context {
	return metadata.NewOutgoingContext(ctx, metadata.Pairs("cache", c.name, "stream", strconv.Itoa(c.stream)))
}

// newCacheSource returns raw as the source of a new cache.
func (s *sharedClient) newCacheSource(raw storage.Interface, resource schema.GroupResource) *cacheSource {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.created++
	return &cacheSource{Interface: raw, name: resource.String() + "#" + strconv.Itoa(s.created)}
}
