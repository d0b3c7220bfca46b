package syncinformer

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"
)

// Factory is the informers of all types. Anybody may ask for informers and read them; one goroutine
// delivers.
type Factory struct {
	mu     sync.Mutex
	byType map[reflect.Type]*informer
}

var _ informers.SharedInformerFactory = (*Factory)(nil)

// New returns a factory whose informers know of nothing.
func New() *Factory { return &Factory{byType: map[reflect.Type]*informer{}} }

// Deliver tells the informer of the objects' type of a change; old or cur is nil when the object
// was or is absent. Nothing is kept for types that nobody asked for before the first delivery.
func (f *Factory) Deliver(old, cur runtime.Object) {
	any := cur
	if cur == nil {
		any = old
	}
	i := f.of(any)
	switch {
	case cur == nil:
		i.deliver(old, nil)
	case old == nil:
		i.deliver(nil, cur)
	default:
		i.deliver(old, cur)
	}
}

func (f *Factory) of(o runtime.Object) *informer {
	t := reflect.TypeOf(o)
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.byType[t]
	if i == nil {
		i = newInformer()
		f.byType[t] = i
	}
	return i
}

// InformerFor implements informers.SharedInformerFactory.
func (f *Factory) InformerFor(o runtime.Object, _ internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return f.of(o)
}

// InformerName implements informers.SharedInformerFactory.
func (*Factory) InformerName() *cache.InformerName { return nil }

// Start implements informers.SharedInformerFactory: nothing has to be started.
func (*Factory) Start(<-chan struct{}) {}

// StartWithContext implements informers.SharedInformerFactory.
func (*Factory) StartWithContext(context.Context) {}

// Shutdown implements informers.SharedInformerFactory.
func (*Factory) Shutdown() {}

// WaitForCacheSync implements informers.SharedInformerFactory: all are in sync.
func (f *Factory) WaitForCacheSync(<-chan struct{}) map[reflect.Type]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[reflect.Type]bool{}
	for t := range f.byType {
		out[t] = true
	}
	return out
}

// WaitForCacheSyncWithContext implements informers.SharedInformerFactory.
func (f *Factory) WaitForCacheSyncWithContext(context.Context) cache.SyncResult {
	return cache.SyncResult{Synced: f.WaitForCacheSync(nil)}
}

// ForResource implements informers.SharedInformerFactory: it is refused, as nobody asks by name.
func (*Factory) ForResource(r schema.GroupVersionResource) (informers.GenericInformer, error) {
	return nil, fmt.Errorf("no informer of %s by its name in a simulated cluster", r)
}
