package syncinformer

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
)

// informer is a shared informer of one type. The owner of its Factory delivers; anybody may read.
type informer struct {
	cache.SharedIndexInformer // nil: what is not below is not used in a simulation

	indexer cache.Indexer
	mu      sync.Mutex
	list    []*registration
}

// registration is one handler; what it was told is always all there is.
type registration struct{ handler cache.ResourceEventHandler }

// HasSynced implements cache.ResourceEventHandlerRegistration.
func (*registration) HasSynced() bool { return true }

// HasSyncedChecker implements cache.ResourceEventHandlerRegistration.
func (*registration) HasSyncedChecker() cache.DoneChecker { return synced{} }

// synced is a cache.DoneChecker that is done.
type synced struct{}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Name implements cache.DoneChecker.
func (synced) Name() string { return "simulated" }

// Done implements cache.DoneChecker.
func (synced) Done() <-chan struct{} { return closed }

func newInformer() *informer {
	return &informer{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
}

// deliver brings the cache to what is after a change and calls the handlers; nil: absent.
func (i *informer) deliver(old, cur any) {
	var err error
	if cur == nil {
		err = i.indexer.Delete(old)
	} else {
		err = i.indexer.Update(cur)
	}
	if err != nil {
		return // an object without metadata has no place in a cluster
	}
	i.mu.Lock()
	list := i.list
	i.mu.Unlock()
	for _, r := range list {
		switch {
		case old == nil:
			r.handler.OnAdd(cur, false)
		case cur == nil:
			r.handler.OnDelete(old)
		default:
			r.handler.OnUpdate(old, cur)
		}
	}
}

// AddEventHandler implements cache.SharedInformer. The handler is told of what is there already.
func (i *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	r := &registration{h}
	i.mu.Lock()
	i.list = append(i.list[:len(i.list):len(i.list)], r)
	i.mu.Unlock()
	for _, o := range i.indexer.List() {
		h.OnAdd(o, true)
	}
	return r, nil
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer; there are no resyncs.
func (i *informer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler,
	_ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (i *informer) AddEventHandlerWithOptions(h cache.ResourceEventHandler,
	_ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// RemoveEventHandler implements cache.SharedInformer.
func (i *informer) RemoveEventHandler(gone cache.ResourceEventHandlerRegistration) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	var rest []*registration
	for _, r := range i.list {
		if r != gone {
			rest = append(rest, r)
		}
	}
	i.list = rest
	return nil
}

// GetStore implements cache.SharedInformer.
func (i *informer) GetStore() cache.Store { return i.indexer }

// GetIndexer implements cache.SharedIndexInformer.
func (i *informer) GetIndexer() cache.Indexer { return i.indexer }

// AddIndexers implements cache.SharedIndexInformer; one that is there already is kept.
func (i *informer) AddIndexers(more cache.Indexers) error {
	have, missing := i.indexer.GetIndexers(), cache.Indexers{}
	for name, index := range more {
		if _, there := have[name]; !there {
			missing[name] = index
		}
	}
	return i.indexer.AddIndexers(missing)
}

// HasSynced implements cache.SharedInformer.
func (*informer) HasSynced() bool { return true }

// HasSyncedChecker implements cache.SharedInformer.
func (*informer) HasSyncedChecker() cache.DoneChecker { return synced{} }

// LastSyncResourceVersion implements cache.SharedInformer.
func (*informer) LastSyncResourceVersion() string { return "" }

// SetTransform implements cache.SharedInformer: objects stay whole.
func (*informer) SetTransform(cache.TransformFunc) error { return nil }

// SetWatchErrorHandler implements cache.SharedInformer: there are no watches.
func (*informer) SetWatchErrorHandler(cache.WatchErrorHandler) error { return nil }

// SetWatchErrorHandlerWithContext implements cache.SharedInformer.
func (*informer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return nil
}

// IsStopped implements cache.SharedInformer.
func (*informer) IsStopped() bool { return false }

// Run implements cache.SharedInformer: the owner of the factory delivers.
func (*informer) Run(<-chan struct{}) {}

// RunWithContext implements cache.SharedInformer.
func (*informer) RunWithContext(context.Context) {}
