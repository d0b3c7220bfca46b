package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
)

// feed is an informer whose handlers are called by the goroutine that takes in changes: between the watch and a handler there is no queue and nobody to wake. It suits
// handlers that are quick and few, as the scheduler's are; what handlers of an ordinary informer may rely on holds.
type feed struct {
	cache.Indexer
	from   cache.ListerWatcher
	kind   any
	listed chan struct{} // closed after the first list
	once   sync.Once

	mu        sync.Mutex // held while a change is taken in and told of
	handlers  []*listener
	transform cache.TransformFunc
	reflector *cache.Reflector // nil: not started
	stopped   bool
}

var _ cache.SharedIndexInformer = (*feed)(nil)

func newFeed(from cache.ListerWatcher, kind any) *feed {
	return &feed{Indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}), from: from, kind: kind, listed: make(chan struct{})}
}

// listener is a handler's registration. What was there when it came has been told to it; what the first list brings is told before listed closes.
type listener struct {
	cache.ResourceEventHandler
	*feed
}

// Name tells what is waited for.
func (f *feed) Name() string { return fmt.Sprintf("the first list of %T", f.kind) }

// Done is closed after the first list.
func (f *feed) Done() <-chan struct{} { return f.listed }

// HasSynced tells whether the first list has been taken in.
func (f *feed) HasSynced() bool { return cache.IsDone(f) }

// HasSyncedChecker waits for the first list.
func (f *feed) HasSyncedChecker() cache.DoneChecker { return f }

// AddEventHandler adds a handler.
func (f *feed) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return f.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler; nothing is told again from time to time.
func (f *feed) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return f.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

// AddEventHandlerWithOptions adds a handler, which is told of what is there before this returns.
func (f *feed) AddEventHandlerWithOptions(h cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return nil, errors.New("the informer has stopped: it takes no more handlers")
	}
	l := &listener{h, f}
	f.handlers = append(f.handlers, l)
	for _, obj := range f.List() {
		h.OnAdd(obj, true)
	}
	return l, nil
}

// RemoveEventHandler removes a handler.
func (f *feed) RemoveEventHandler(r cache.ResourceEventHandlerRegistration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handlers = slices.DeleteFunc(slices.Clone(f.handlers), func(l *listener) bool { return l == r })
	return nil
}

// GetStore is what was taken in.
func (f *feed) GetStore() cache.Store { return f.Indexer }

// GetIndexer is what was taken in.
func (f *feed) GetIndexer() cache.Indexer { return f.Indexer }

// GetController is the informer.
func (f *feed) GetController() cache.Controller { return f }

// SetWatchErrorHandler is refused: errors are logged as client-go logs them.
func (f *feed) SetWatchErrorHandler(cache.WatchErrorHandler) error {
	return errors.New("this informer logs errors of its watch, and tells nobody else")
}

// SetWatchErrorHandlerWithContext is refused as well.
func (f *feed) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return f.SetWatchErrorHandler(nil)
}

// SetTransform changes objects before they are taken in; it must be called before Run.
func (f *feed) SetTransform(t cache.TransformFunc) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reflector != nil {
		return errors.New("the informer has started: it cannot be told to transform objects any more")
	}
	f.transform = t
	return nil
}

// LastSyncResourceVersion is the version that was taken in last.
func (f *feed) LastSyncResourceVersion() string {
	f.mu.Lock()
	r := f.reflector
	f.mu.Unlock()
	if r == nil {
		return ""
	}
	return r.LastSyncResourceVersion()
}

// IsStopped tells whether Run has ended.
func (f *feed) IsStopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

// Run lists and watches until stop is closed.
func (f *feed) Run(stop <-chan struct{}) {
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

// RunWithContext lists and watches until ctx ends. It is to be called once.
func (f *feed) RunWithContext(ctx context.Context) {
	f.mu.Lock()
	if f.reflector != nil {
		f.mu.Unlock()
		return
	}
	f.reflector = cache.NewReflectorWithOptions(f.from, f.kind, (*intake)(f), cache.ReflectorOptions{Name: "gantry/wire"})
	r := f.reflector
	f.mu.Unlock()
	r.RunWithContext(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
}

// intake is where a reflector puts what it reads.
type intake feed

var _ cache.ReflectorStore = (*intake)(nil)

// Add takes in an object that is new, or was there already.
func (in *intake) Add(obj any) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.set(obj)
}

// Update is Add.
func (in *intake) Update(obj any) error { return in.Add(obj) }

// set takes in and tells; mu is held.
func (in *intake) set(obj any) (err error) {
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
			h.OnAdd(obj, !(*feed)(in).HasSynced())
		}
	}
	return nil
}

// Delete forgets an object.
func (in *intake) Delete(obj any) error {
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

// Replace takes in a list: what is not in it is gone.
func (in *intake) Replace(list []any, _ string) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	there := make(map[string]bool, len(list))
	for _, obj := range list {
		key, err := cache.MetaNamespaceKeyFunc(obj)
		if err != nil {
			return err
		}
		there[key] = true
		if err := in.set(obj); err != nil {
			return err
		}
	}
	for _, key := range in.ListKeys() {
		if there[key] {
			continue
		}
		obj, had, err := in.GetByKey(key)
		if err != nil || !had {
			continue // nobody else takes anything out
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

// Resync tells nothing again.
func (in *intake) Resync() error { return nil }
