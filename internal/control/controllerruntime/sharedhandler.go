package controllerruntime

import (
	"context"
	"errors"
	"sync"

	"k8s.io/client-go/tools/cache"
)

// ShareHandlers makes all handlers that are added before the informer runs share one listener: the
// library wakes three goroutines per listener and event, and twenty controllers listen to Pods.
// Shared handlers are called one after the other, so they must be quick, like those of queues.
// Handlers added later have listeners of their own.
func ShareHandlers(informer cache.SharedIndexInformer) cache.SharedIndexInformer {
	return &sharedHandlerInformer{SharedIndexInformer: informer}
}

// errSharedHandler is returned by RemoveEventHandler for shared handlers.
var errSharedHandler = errors.New("a handler that shares its listener with others cannot be removed")

type sharedHandlerInformer struct {
	cache.SharedIndexInformer

	mu       sync.Mutex
	started  bool
	handlers handlers // the shared handlers; fixed once the informer runs
	shared   cache.ResourceEventHandlerRegistration
}

// AddEventHandler implements cache.SharedInformer. All shared handlers get the same registration.
func (j *sharedHandlerInformer) AddEventHandler(
	h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.started {
		return j.SharedIndexInformer.AddEventHandler(h)
	}
	if j.shared == nil {
		r, err := j.SharedIndexInformer.AddEventHandler(&j.handlers)
		if err != nil {
			return nil, err
		}
		j.shared = r
	}
	j.handlers = append(j.handlers, h)
	return j.shared, nil
}

// RemoveEventHandler implements cache.SharedInformer. Shared handlers cannot be removed.
func (j *sharedHandlerInformer) RemoveEventHandler(r cache.ResourceEventHandlerRegistration) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if r == j.shared {
		return errSharedHandler
	}
	return j.SharedIndexInformer.RemoveEventHandler(r)
}

// Run implements cache.SharedInformer.
func (j *sharedHandlerInformer) Run(stop <-chan struct{}) {
	j.freezeHandlers()
	j.SharedIndexInformer.Run(stop)
}

// RunWithContext implements cache.SharedInformer.
func (j *sharedHandlerInformer) RunWithContext(ctx context.Context) {
	j.freezeHandlers()
	j.SharedIndexInformer.RunWithContext(ctx)
}

func (j *sharedHandlerInformer) freezeHandlers() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.started = true
}

// handlers calls its handlers one after the other.
type handlers []cache.ResourceEventHandler

// OnAdd implements cache.ResourceEventHandler.
func (all *handlers) OnAdd(obj any, initially bool) {
	for _, h := range *all {
		h.OnAdd(obj, initially)
	}
}

// OnUpdate implements cache.ResourceEventHandler.
func (all *handlers) OnUpdate(old, cur any) {
	for _, h := range *all {
		h.OnUpdate(old, cur)
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (all *handlers) OnDelete(obj any) {
	for _, h := range *all {
		h.OnDelete(obj)
	}
}
