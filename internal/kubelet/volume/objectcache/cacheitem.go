package objectcache

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// waitTimeout is how long a reader waits while the API server refuses: the Node authorizer may not
// have seen yet that the Pod was bound to this node.
const waitTimeout = 2 * time.Second

// watchBackoff is how a watch that fails is taken up again.
var watchBackoff = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10,
	Cap: 30 * time.Second}

// cacheItem is one object and its watch. It is the reflector's store.
type cacheItem struct {
	cache  *Cache
	ref    volume.Ref
	pods   map[types.UID]bool // guarded by Cache.mu
	since  time.Time
	synced chan struct{} // closed when the object is known, to be there or not
	stop   context.CancelFunc

	mu     sync.Mutex
	known  bool
	object runtime.Object // nil: it does not exist
	err    error          // of the last try, while not known
	wake   chan struct{}  // closed at the next failure; readers that met none wait on it
}

// watch keeps the object up to date until stop. Locks of Cache are held.
func (i *cacheItem) watch(ctx context.Context) {
	ctx, i.stop = context.WithCancel(ctx)
	k := kindOf(i.ref)
	one := func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + i.ref.Name }
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			one(&o)
			list, err := k.list(ctx, i.cache.d.Client, i.ref.Namespace, o)
			i.setError(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			one(&o)
			w, err := k.watch(ctx, i.cache.d.Client, i.ref.Namespace, o)
			i.setError(err)
			return w, err
		},
	}
	backoff := watchBackoff
	r := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, i.cache.d.Client), k.empty, i,
		cache.ReflectorOptions{
			Name: fmt.Sprintf("%s %s/%s", i.ref.Kind, i.ref.Namespace, i.ref.Name), Backoff: &backoff,
		})
	go r.RunWithContext(ctx)
}

// get waits until the object is known, or the API server said why not.
func (i *cacheItem) get(ctx context.Context) (runtime.Object, error) {
	for {
		i.mu.Lock()
		known, object, err := i.known, i.object, i.err
		if i.wake == nil {
			i.wake = make(chan struct{})
		}
		wake := i.wake
		i.mu.Unlock()
		switch {
		case known && object == nil:
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: kindOf(i.ref).name}, i.ref.Name)
		case known:
			return object, nil
		case err != nil && (!apierrors.IsForbidden(err) || time.Since(i.since) > waitTimeout):
			return nil, err
		}
		select {
		case <-i.synced:
		case <-wake:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s %q: %w", kindOf(i.ref).name, i.ref.Name, ctx.Err())
		}
	}
}

// setError notes why the object is not known yet.
func (i *cacheItem) setError(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err == nil || i.known {
		return
	}
	i.err = err
	if i.wake != nil {
		close(i.wake)
		i.wake = nil
	}
}

// set takes a state from the watch and tells the Pods when it is news to a reader.
func (i *cacheItem) set(o runtime.Object) {
	i.mu.Lock()
	first, failed := !i.known, i.err != nil
	same := !first && version(i.object) == version(o)
	i.known, i.object, i.err = true, o, nil
	i.mu.Unlock()
	if first {
		close(i.synced)
	}
	if immutable(o) {
		i.stop() // it will never change; a new object of the name is for new Pods
	}
	if !same && (!first || failed) {
		i.cache.notifyPods(i)
	}
}

func version(o runtime.Object) string {
	if o == nil {
		return ""
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return ""
	}
	return string(m.GetUID()) + "/" + m.GetResourceVersion()
}

func immutable(o runtime.Object) bool {
	switch o := o.(type) {
	case *v1.ConfigMap:
		return o.Immutable != nil && *o.Immutable
	case *v1.Secret:
		return o.Immutable != nil && *o.Immutable
	}
	return false
}

// Add takes a new object from the reflector.
func (i *cacheItem) Add(o any) error { i.set(o.(runtime.Object)); return nil }

// Update takes a changed object from the reflector.
func (i *cacheItem) Update(o any) error { i.set(o.(runtime.Object)); return nil }

// Delete takes the object's end from the reflector.
func (i *cacheItem) Delete(any) error { i.set(nil); return nil }

// Replace takes what a list found: one object or none.
func (i *cacheItem) Replace(list []any, _ string) error {
	for _, o := range list {
		i.set(o.(runtime.Object))
		return nil
	}
	i.set(nil)
	return nil
}

// Resync does nothing: the reflector is made without a period.
func (i *cacheItem) Resync() error { return nil }

// objectKind is what differs between ConfigMaps and Secrets.
type objectKind struct {
	name  string // as upstream's "not found" errors say it
	empty runtime.Object
	get   func(context.Context, kubernetes.Interface, volume.Ref) (runtime.Object, error)
	list  func(context.Context, kubernetes.Interface, string, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, kubernetes.Interface, string, metav1.ListOptions) (watch.Interface, error)
}

func kindOf(ref volume.Ref) objectKind {
	if ref.Kind == volume.Secret {
		return objectKind{
			name: "secret", empty: &v1.Secret{},
			get: func(ctx context.Context, c kubernetes.Interface, r volume.Ref) (runtime.Object, error) {
				return c.CoreV1().Secrets(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
			},
			list: func(ctx context.Context, c kubernetes.Interface, ns string,
				o metav1.ListOptions) (runtime.Object, error) {
				return c.CoreV1().Secrets(ns).List(ctx, o)
			},
			watch: func(ctx context.Context, c kubernetes.Interface, ns string,
				o metav1.ListOptions) (watch.Interface, error) {
				return c.CoreV1().Secrets(ns).Watch(ctx, o)
			},
		}
	}
	return objectKind{
		name: "configmap", empty: &v1.ConfigMap{},
		get: func(ctx context.Context, c kubernetes.Interface, r volume.Ref) (runtime.Object, error) {
			return c.CoreV1().ConfigMaps(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
		},
		list: func(ctx context.Context, c kubernetes.Interface, ns string,
			o metav1.ListOptions) (runtime.Object, error) {
			return c.CoreV1().ConfigMaps(ns).List(ctx, o)
		},
		watch: func(ctx context.Context, c kubernetes.Interface, ns string,
			o metav1.ListOptions) (watch.Interface, error) {
			return c.CoreV1().ConfigMaps(ns).Watch(ctx, o)
		},
	}
}
