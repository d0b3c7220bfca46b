package store

import (
	"context"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/gantry-project/gantry/internal/apiserver/sharedwatch"
)

// sharedClient is the one client of the embedded etcd for the storages of all resources. Calls go
// to the server's functions without sockets or copies; upstream opens a connection per resource.
// Safe for concurrent use.
type sharedClient struct {
	client    *kubernetes.Client
	compactor interface {
		etcd3.Compactor
		Stop()
	}
	cancel context.CancelFunc // ends monitorCaches

	mu      sync.Mutex
	created int // cache sources made so far
	caches  []*trackedCache
}

// openSharedClient makes the shared client and starts the compaction of history older than compact
// and monitorCaches. They run until close, not until ctx ends.
func (s *Store) openSharedClient(ctx context.Context, compact time.Duration) {
	c := &kubernetes.Client{Client: newInProcessClient(s.embedded)}
	c.Kubernetes = c
	following, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.shared = &sharedClient{client: c, compactor: etcd3.NewCompactor(c.Client, compact, clock.RealClock{}, nil),
		cancel: cancel}
	go s.monitorCaches(following)
	// The library checks each endpoint's version for progress requests; an in-process client has no
	// endpoints, so it gets one.
	feature.DefaultFeatureSupportChecker.CheckClient(ctx, namedClient{c.Client, s}, storage.RequestWatchProgress)
	c.KV = noSpaceKV{etcd3.NewETCDLatencyTracker(c.KV), s}
}

// namedClient is the in-process client with the socket's address as its endpoint.
type namedClient struct {
	*clientv3.Client
	store *Store
}

func (v namedClient) Endpoints() []string { return v.store.Transport.ServerList }

// Status implements clientv3.Maintenance. The library retries it in the background until it
// succeeds, so it may come while the store closes; the closed database must not be read.
func (v namedClient) Status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	v.store.statusLock.RLock()
	defer v.store.statusLock.RUnlock()
	if v.store.closed.Load() {
		return nil, errClosed
	}
	return v.Client.Status(ctx, endpoint)
}

var errClosed = errors.New("the store is closed")

// close stops monitorCaches, compaction and the client. The embedded etcd must still run.
func (s *sharedClient) close() {
	s.cancel()
	s.compactor.Stop()
	_ = s.client.Close() // the process or the server ends with it
}

// Ping reads a key, for health checks. It returns *NoSpaceError or errCorrupt if the embedded etcd
// refuses writes, or etcd's error.
func (s *Store) Ping(ctx context.Context) error {
	if s.closed.Load() {
		return errClosed
	}
	if s.embedded != nil {
		if _, err := s.shared.client.KV.Get(ctx, Prefix+"/health"); err != nil {
			return err
		}
		return s.alarmError()
	}
	c, err := s.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Get(ctx, Prefix+"/health")
	return err
}

// ShareClient returns a getter whose storages use the shared client and watch caches, if etcd is
// embedded. With an external etcd the getter's storages stay the library's. Watchers share watches
// in both cases (package sharedwatch).
func (s *Store) ShareClient(g generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	if s.embedded == nil {
		return WrapStorage(g, func(s storage.Interface) storage.Interface { return sharedwatch.New(s, s) })
	}
	return sharingGetter{g, s.shared}
}

// WrapStorage returns a getter that applies wrap to every storage it makes.
func WrapStorage(g generic.RESTOptionsGetter,
	wrap func(storage.Interface) storage.Interface) generic.RESTOptionsGetter {
	return wrappingGetter{g, wrap}
}

// wrappingGetter is WrapStorage's getter.
type wrappingGetter struct {
	generic.RESTOptionsGetter
	wrap func(storage.Interface) storage.Interface
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g wrappingGetter) GetRESTOptions(r schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := g.RESTOptionsGetter.GetRESTOptions(r, example)
	if inner := o.Decorator; inner != nil {
		o.Decorator = func(c *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
			newFunc, newList func() runtime.Object,
			attrs storage.AttrFunc, triggers storage.IndexerFuncs,
			indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
			s, destroy, err := inner(c, prefix, key, newFunc, newList, attrs, triggers, indexers)
			if err != nil {
				return s, destroy, err
			}
			return g.wrap(s), destroy, nil
		}
	}
	return o, err
}

// sharingGetter is ShareClient's getter for an embedded etcd.
type sharingGetter struct {
	generic.RESTOptionsGetter
	shared *sharedClient
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g sharingGetter) GetRESTOptions(r schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := g.RESTOptionsGetter.GetRESTOptions(r, example)
	o.Decorator = g.shared.newStorage
	return o, err
}

// newStorage implements generic.StorageDecorator: etcd3 storage over the shared client behind a
// watch cache, with shared and resuming watches. Events are not cached, as upstream.
func (s *sharedClient) newStorage(c *storagebackend.ConfigForResource, prefix string,
	key func(runtime.Object) (string, error), newFunc, newList func() runtime.Object,
	attrs storage.AttrFunc, triggers storage.IndexerFuncs,
	indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
	transformer := c.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	versioner := storage.APIObjectVersioner{}
	raw, err := etcd3.New(s.client, s.compactor, c.Codec, newFunc, newList, c.Prefix, prefix, c.GroupResource,
		transformer,
		c.LeaseManagerConfig, etcd3.NewDefaultDecoder(c.Codec, versioner), versioner)
	if err != nil {
		return nil, nil, err
	}
	if c.GroupResource.Resource == "events" { // as upstream: there are many, and hardly any is read
		return raw, raw.Close, nil
	}
	source := s.newCacheSource(raw, c.GroupResource)
	caching, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage: source, Versioner: versioner, GroupResource: c.GroupResource,
		EventsHistoryWindow: c.EventsHistoryWindow, ResourcePrefix: prefix,
		KeyFunc: key, NewFunc: newFunc, NewListFunc: newList, GetAttrsFunc: attrs, IndexerFuncs: triggers,
		Indexers: indexers, Codec: c.Codec, Clock: alignedClock{},
	})
	if err != nil {
		raw.Close()
		return nil, nil, err
	}
	delegator := cacher.NewCacheDelegator(caching, raw)
	cached := waitingStorage{delegator, caching}
	history, err := historyOf(caching)
	if err != nil {
		klog.Error(err, "; what it keeps stays in memory") // TestOldEventsAreDropped fails then
	}
	forget := s.addCache(&trackedCache{source: source, resource: c.GroupResource, cache: caching, history: history})
	var once sync.Once
	return sharedwatch.New(resumingStorage{cached, raw}, cached).WithInitialEvents(newFunc, newList), func() {
		once.Do(func() {
			forget()
			delegator.Stop()
			caching.Stop()
			raw.Close()
		})
	}, nil
}
