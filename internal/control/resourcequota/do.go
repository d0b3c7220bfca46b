// Package resourcequota counts anew what a ResourceQuota's namespace uses and writes it, with the limits that are from then on enforced.
//
// Chapter 1, written: admission adds, this controller counts. In: quotas; Pods, claims and Services; any other kind a quota limits the number of.
// Out: quota status. A quota not counted yet goes before the others.
package resourcequota

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/discovery/cached/memory"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/loop"
	ownquota "github.com/gantry-project/gantry/internal/pod/quota"
)

// resync is after how long a quota is counted anew though nothing seems to have changed (upstream's five minutes).
const resync = 5 * time.Minute

// settle is after how long a quota whose limits changed is counted once more: what was created before the API server's own cache knew the new limits
// was not counted by admission.
const settle = time.Second

type controller struct {
	deps        loop.Deps
	quotas      corelisters.ResourceQuotaLister
	typed       map[schema.GroupResource]cache.SharedIndexInformer
	mapper      *restmapper.DeferredDiscoveryRESTMapper
	first, rest *loop.Queue

	mu    sync.Mutex
	kinds map[schema.GroupResource]cache.SharedIndexInformer // only metadata; begun when the first quota names the kind
	end   <-chan struct{}
}

// runner runs the queue of uncounted quotas beside that of all.
type runner struct{ *controller }

// Run runs both until ctx ends.
func (r runner) Run(ctx context.Context) {
	r.end = ctx.Done()
	r.first.Also(r.rest.Run)
	r.first.Run(ctx)
}

// New makes the controller.
func New(d loop.Deps) loop.Runner {
	core := d.Informers.Core().V1()
	c := &controller{
		deps: d, quotas: core.ResourceQuotas().Lister(), kinds: map[schema.GroupResource]cache.SharedIndexInformer{},
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d.Client.Discovery())),
		typed: map[schema.GroupResource]cache.SharedIndexInformer{
			{Resource: "pods"}: core.Pods().Informer(), {Resource: "services"}: core.Services().Informer(),
			{Resource: "persistentvolumeclaims"}: core.PersistentVolumeClaims().Informer(),
		},
	}
	c.first, c.rest = loop.NewQueue("resourcequota-first", 5, c.sync), loop.NewQueue("resourcequota", 5, c.sync)
	c.first.Watch(core.ResourceQuotas().Informer(), c.quotaChanged)
	for _, e := range ownquota.Evaluators(c.list, time.Now) {
		informer, ok := c.typed[e.GroupResource()]
		if !ok {
			continue
		}
		c.first.Needs(informer)
		c.rest.Watch(informer, func(old, cur runtime.Object) []string {
			if old == nil || cur != nil && !Changed(e, old, cur) {
				return nil
			}
			return c.inNamespaceOf(old)
		})
	}
	return runner{c}
}

// quotaChanged takes new limits; what changes in the status is this controller's and admission's own doing.
func (c *controller) quotaChanged(old, cur runtime.Object) []string {
	q, ok := cur.(*corev1.ResourceQuota)
	if !ok {
		if gone, ok := old.(*corev1.ResourceQuota); ok {
			c.recount(gone)
		}
		return nil
	}
	if was, ok := old.(*corev1.ResourceQuota); ok && apiequality.Semantic.DeepEqual(was.Spec, q.Spec) {
		return nil
	}
	key := q.Namespace + "/" + q.Name
	if Uncounted(q) {
		return []string{key}
	}
	c.rest.Add(key)
	return nil
}

// recount asks for the quotas beside one that is gone: quotas may limit the number of quotas.
func (c *controller) recount(gone *corev1.ResourceQuota) {
	for _, key := range c.inNamespaceOf(gone) {
		c.rest.Add(key)
	}
}

func (c *controller) inNamespaceOf(obj runtime.Object) []string {
	m, ok := obj.(metav1.Object)
	if !ok {
		return nil
	}
	quotas, _ := c.quotas.ResourceQuotas(m.GetNamespace()).List(labels.Everything())
	keys := make([]string, len(quotas))
	for i, q := range quotas {
		keys[i] = q.Namespace + "/" + q.Name
	}
	return keys
}

func (c *controller) sync(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	q, err := c.quotas.ResourceQuotas(ns).Get(name)
	if err != nil {
		return 0, loop.IgnoreGone(err)
	}
	changed := Uncounted(q)
	status, failure := Count(In{Quota: q, List: c.list, Now: time.Now()})
	if Lower(q.Status, status) { // a cache that has not heard yet of what admission counted would let too much in
		status, failure = Count(In{Quota: q, List: c.live(ctx), Now: time.Now()})
	}
	if !Equal(q.Status, status) {
		q = q.DeepCopy()
		q.Status = status
		if _, err := c.deps.Client.CoreV1().ResourceQuotas(ns).UpdateStatus(ctx, q, metav1.UpdateOptions{}); err != nil {
			return 0, loop.IgnoreGone(err)
		}
	}
	if failure != nil {
		return 0, fmt.Errorf("counting for quota %s: %w", key, failure)
	}
	if changed {
		return settle, nil
	}
	return resync, nil
}

// live gives the objects of a kind as they are stored now; kinds of which only the number counts come from the cache.
func (c *controller) live(ctx context.Context) func(schema.GroupResource) generic.ListFuncByNamespace {
	core := c.deps.Client.CoreV1()
	return func(gr schema.GroupResource) generic.ListFuncByNamespace {
		var read func(namespace string) (runtime.Object, error)
		switch gr {
		case corev1.Resource("pods"):
			read = func(ns string) (runtime.Object, error) { return core.Pods(ns).List(ctx, metav1.ListOptions{}) }
		case corev1.Resource("services"):
			read = func(ns string) (runtime.Object, error) { return core.Services(ns).List(ctx, metav1.ListOptions{}) }
		case corev1.Resource("persistentvolumeclaims"):
			read = func(ns string) (runtime.Object, error) {
				return core.PersistentVolumeClaims(ns).List(ctx, metav1.ListOptions{})
			}
		default:
			return c.list(gr)
		}
		return func(namespace string) ([]runtime.Object, error) {
			all, err := read(namespace)
			if err != nil {
				return nil, fmt.Errorf("listing %s: %w", gr, err)
			}
			return meta.ExtractList(all)
		}
	}
}

// list gives the objects of a kind from the cache.
func (c *controller) list(gr schema.GroupResource) generic.ListFuncByNamespace {
	return func(namespace string) ([]runtime.Object, error) {
		informer, ok := c.typed[gr]
		if !ok {
			var err error
			if informer, err = c.kind(gr); err != nil {
				return nil, err
			}
		}
		found, err := informer.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", gr, err)
		}
		out := make([]runtime.Object, 0, len(found))
		for _, raw := range found {
			if o, ok := raw.(runtime.Object); ok {
				out = append(out, o)
			}
		}
		return out, nil
	}
}

// kind returns the cache of a kind's metadata, begun at the first question and kept.
func (c *controller) kind(gr schema.GroupResource) (cache.SharedIndexInformer, error) {
	c.mu.Lock()
	informer, ok := c.kinds[gr]
	if !ok {
		gvr, err := c.mapper.ResourceFor(gr.WithVersion(""))
		if err != nil {
			c.mapper.Reset() // the kind may come later
			c.mu.Unlock()
			return nil, fmt.Errorf("no such resource %s: %w", gr, err)
		}
		informer = metadatainformer.NewFilteredMetadataInformer(c.deps.Metadata, gvr, metav1.NamespaceAll, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, nil).Informer()
		c.rest.WatchLate(informer, func(old, cur runtime.Object) []string {
			if old == nil || cur != nil {
				return nil
			}
			return c.inNamespaceOf(old)
		})
		c.kinds[gr] = informer
		go informer.Run(c.end)
	}
	c.mu.Unlock()
	if !cache.WaitForCacheSync(c.end, informer.HasSynced) {
		return nil, fmt.Errorf("the list of %s ended before it was read", gr)
	}
	return informer, nil
}
