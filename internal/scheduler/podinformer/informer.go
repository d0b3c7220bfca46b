package podinformer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
)

// inlineInformer is a cache.SharedIndexInformer whose handlers are called by the goroutine that
// takes in changes: between the watch and a handler there is no queue and no goroutine to wake. It
// suits handlers that are quick and few, as the scheduler's are; they may rely on what handlers of
// an ordinary informer may rely on.
type inlineInformer struct {
	cache.Indexer
	listerWatcher cache.ListerWatcher
	objectType    any
	listed        chan struct{} // closed after the first list
	once          sync.Once

	mu        sync.Mutex // held while a change is taken in and handlers are called
	handlers  []*handlerRegistration
	transform cache.TransformFunc
	reflector *cache.Reflector // nil: not started
	stopped   bool
}

var _ cache.SharedIndexInformer = (*inlineInformer)(nil)

func newInlineInformer(from cache.ListerWatcher, kind any) *inlineInformer {
	return &inlineInformer{Indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}), listerWatcher: from, objectType: kind,
		listed: make(chan struct{})}
}

// handlerRegistration is a handler's registration. The handler has been called for what the
// informer held when it was added; for the first list it is called before listed closes.
type handlerRegistration struct {
	cache.ResourceEventHandler
	*inlineInformer
}

// Name names what is waited for.
func (f *inlineInformer) Name() string { return fmt.Sprintf("the first list of %T", f.objectType) }

// Done is closed after the first list.
func (f *inlineInformer) Done() <-chan struct{} { return f.listed }

// HasSynced tells whether the first list has been taken in.
func (f *inlineInformer) HasSynced() bool { return cache.IsDone(f) }

// HasSyncedChecker waits for the first list.
func (f *inlineInformer) HasSyncedChecker() cache.DoneChecker { return f }

// AddEventHandler adds a handler.
func (f *inlineInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return f.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler; there are no resyncs.
func (f *inlineInformer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler,
	_ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return f.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

// AddEventHandlerWithOptions adds a handler and calls it for every object before it returns.
func (f *inlineInformer) AddEventHandlerWithOptions(h cache.ResourceEventHandler,
	_ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return nil, errors.New("the informer has stopped: it takes no more handlers")
	}
	l := &handlerRegistration{h, f}
	f.handlers = append(f.handlers, l)
	for _, obj := range f.List() {
		h.OnAdd(obj, true)
	}
	return l, nil
}

// RemoveEventHandler removes a handler.
func (f *inlineInformer) RemoveEventHandler(r cache.ResourceEventHandlerRegistration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handlers = slices.DeleteFunc(slices.Clone(f.handlers), func(l *handlerRegistration) bool { return l == r })
	return nil
}

// GetStore is the store of objects.
func (f *inlineInformer) GetStore() cache.Store { return f.Indexer }

// GetIndexer is the store of objects.
func (f *inlineInformer) GetIndexer() cache.Indexer { return f.Indexer }

// GetController is the informer.
func (f *inlineInformer) GetController() cache.Controller { return f }

// SetWatchErrorHandler is refused: errors are logged as client-go logs them.
func (f *inlineInformer) SetWatchErrorHandler(cache.WatchErrorHandler) error {
	return errors.New("this informer logs errors of its watch, and tells nobody else")
}

// SetWatchErrorHandlerWithContext is refused as well.
func (f *inlineInformer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return f.SetWatchErrorHandler(nil)
}

// SetTransform changes objects before they are taken in; it must be called before Run.
func (f *inlineInformer) SetTransform(t cache.TransformFunc) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reflector != nil {
		return errors.New("the informer has started: it cannot be told to transform objects any more")
	}
	f.transform = t
	return nil
}

// LastSyncResourceVersion is the resource version that was taken in last.
func (f *inlineInformer) LastSyncResourceVersion() string {
	f.mu.Lock()
	r := f.reflector
	f.mu.Unlock()
	if r == nil {
		return ""
	}
	return r.LastSyncResourceVersion()
}

// IsStopped tells whether Run has ended.
func (f *inlineInformer) IsStopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

// Run lists and watches until stop is closed.
func (f *inlineInformer) Run(stop <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	f.RunWithContext(ctx)
}

// RunWithContext lists and watches until ctx ends. It must be called once only.
func (f *inlineInformer) RunWithContext(ctx context.Context) {
	f.mu.Lock()
	if f.reflector != nil {
		f.mu.Unlock()
		return
	}
	f.reflector = cache.NewReflectorWithOptions(f.listerWatcher, f.objectType, (*reflectorStore)(f),
		cache.ReflectorOptions{Name: "gantry/wire"})
	r := f.reflector
	f.mu.Unlock()
	r.RunWithContext(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
}

// reflectorStore is the store of the reflector: it updates the informer and calls the handlers.
type reflectorStore inlineInformer

var _ cache.ReflectorStore = (*reflectorStore)(nil)

// Add takes in an object, new or changed.
func (in *reflectorStore) Add(obj any) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.addOrUpdate(obj)
}

// Update is Add.
func (in *reflectorStore) Update(obj any) error { return in.Add(obj) }

// addOrUpdate takes in an object and calls the handlers; mu is held.
func (in *reflectorStore) addOrUpdate(obj any) (err error) {
	if in.transform != nil {
		if obj, err = in.transform(obj); err != nil {
			return err
		}
	}
	old, had, err := in.Get(obj)
	if err != nil {
		return err
	}
	if err := in.Indexer.Update(obj); err != nil {
		return err
	}
	for _, h := range in.handlers {
		if had {
			h.OnUpdate(old, obj)
		} else {
			h.OnAdd(obj, !(*inlineInformer)(in).HasSynced())
		}
	}
	return nil
}

// Delete takes the object out of the store and tells the handlers, on the caller's goroutine and
// with the lock held: the reflector calls it. An object that is not there is no error; an error is
// the transform's or that of an object without a key.
func (in *reflectorStore) Delete(obj any) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.transform != nil {
		var err error
		if obj, err = in.transform(obj); err != nil {
			return err
		}
	}
	if _, had, err := in.Get(obj); err != nil || !had {
		return err
	}
	if err := in.Indexer.Delete(obj); err != nil {
		return err
	}
	for _, h := range in.handlers {
		h.OnDelete(obj)
	}
	return nil
}

// Replace takes in a list; objects that are not in it are deleted.
func (in *reflectorStore) Replace(list []any, _ string) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	there := make(map[string]bool, len(list))
	for _, obj := range list {
		key, err := cache.MetaNamespaceKeyFunc(obj)
		if err != nil {
			return err
		}
		there[key] = true
		if err := in.addOrUpdate(obj); err != nil {
			return err
		}
	}
	for _, key := range in.ListKeys() {
		if there[key] {
			continue
		}
		obj, had, err := in.GetByKey(key)
		if err != nil || !had {
			continue // no other goroutine deletes
		}
		if err := in.Indexer.Delete(obj); err != nil {
			return err
		}
		for _, h := range in.handlers {
			h.OnDelete(cache.DeletedFinalStateUnknown{Key: key, Obj: obj})
		}
	}
	in.once.Do(func() { close(in.listed) })
	return nil
}

// Resync does nothing.
func (in *reflectorStore) Resync() error { return nil }
