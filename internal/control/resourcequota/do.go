// Package resourcequota recounts the usage of a ResourceQuota's namespace and writes it, with the
// limits that are enforced from then on.
//
// Admission adds usage, this controller recounts it. In: quotas; Pods, claims and Services; any
// other kind whose number a quota limits. Out: quota status. New and changed quotas have priority.
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

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	ownquota "github.com/gantry-project/gantry/internal/quota"
)

// resync is how often an unchanged quota is recounted, as upstream.
const resync = 5 * time.Minute

// recalculationDelay is when a quota with changed limits is counted once more: admission did not
// count objects created before the API server's cache had the new limits.
const recalculationDelay = time.Second

type controller struct {
	controllerContext          controllerruntime.ControllerContext
	quotas                     corelisters.ResourceQuotaLister
	typed                      map[schema.GroupResource]cache.SharedIndexInformer
	mapper                     *restmapper.DeferredDiscoveryRESTMapper
	priorityQueue, resyncQueue *controllerruntime.Queue

	mu sync.Mutex
	// metadata only; started when the first quota names the kind
	kinds  map[schema.GroupResource]cache.SharedIndexInformer
	stopCh <-chan struct{}
}

// runner runs the queue of uncounted quotas beside the main queue.
type runner struct{ *controller }

// Run runs both until ctx ends.
func (r runner) Run(ctx context.Context) {
	r.stopCh = ctx.Done()
	r.priorityQueue.AddBackground(r.resyncQueue.Run)
	r.priorityQueue.Run(ctx)
}

// Queues implements controllerruntime.QueueHolder.
func (r runner) Queues() []*controllerruntime.Queue {
	return []*controllerruntime.Queue{r.priorityQueue, r.resyncQueue}
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	core := d.Informers.Core().V1()
	c := &controller{
		controllerContext: d, quotas: core.ResourceQuotas().Lister(),
		kinds:  map[schema.GroupResource]cache.SharedIndexInformer{},
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d.Client.Discovery())),
		typed: map[schema.GroupResource]cache.SharedIndexInformer{
			{Resource: "pods"}: core.Pods().Informer(), {Resource: "services"}: core.Services().Informer(),
			{Resource: "persistentvolumeclaims"}: core.PersistentVolumeClaims().Informer(),
		},
	}
	c.priorityQueue, c.resyncQueue = controllerruntime.NewQueue("resourcequota-first", 5, c.syncResourceQuotaFromKey),
		controllerruntime.NewQueue("resourcequota", 5, c.syncResourceQuotaFromKey)
	c.priorityQueue.Watch(core.ResourceQuotas().Informer(), c.quotaChanged)
	for _, e := range ownquota.Evaluators(c.list, d.Time) {
		informer, ok := c.typed[e.GroupResource()]
		if !ok {
			continue
		}
		c.priorityQueue.WaitForInformers(informer)
		c.resyncQueue.Watch(informer, func(old, cur runtime.Object) []string {
			if old == nil || cur != nil && !Changed(e, old, cur) {
				return nil
			}
			return c.inNamespaceOf(old)
		})
	}
	return runner{c}
}

// quotaChanged returns a quota with changed limits; changes of the status are this controller's and
// admission's own.
func (c *controller) quotaChanged(old, cur runtime.Object) []string {
	q, ok := cur.(*corev1.ResourceQuota)
	if !ok {
		if deleted, ok := old.(*corev1.ResourceQuota); ok {
			c.enqueueOverlapping(deleted)
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
	c.resyncQueue.Add(key)
	return nil
}

// enqueueOverlapping syncs the other quotas of a deleted one's namespace: quotas may limit the
// number of quotas.
func (c *controller) enqueueOverlapping(deleted *corev1.ResourceQuota) {
	for _, key := range c.inNamespaceOf(deleted) {
		c.resyncQueue.Add(key)
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

func (c *controller) syncResourceQuotaFromKey(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	q, err := c.quotas.ResourceQuotas(ns).Get(name)
	if err != nil {
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	changed := Uncounted(q)
	status, failure := Count(In{Quota: q, List: c.list, Now: c.controllerContext.Time()})
	// the cache may lack objects that admission counted, and a lower number would admit too much
	if IsLower(q.Status, status) {
		status, failure = Count(In{Quota: q, List: c.listLive(ctx), Now: c.controllerContext.Time()})
	}
	if !Equal(q.Status, status) {
		q = q.DeepCopy()
		q.Status = status
		if _, err := c.controllerContext.Client.CoreV1().ResourceQuotas(ns).UpdateStatus(ctx, q,
			metav1.UpdateOptions{}); err != nil {
			return 0, controllerruntime.IgnoreNotFound(err)
		}
	}
	if failure != nil {
		return 0, fmt.Errorf("counting for quota %s: %w", key, failure)
	}
	if changed {
		return recalculationDelay, nil
	}
	return resync, nil
}

// listLive lists the objects of a kind from the API; kinds that only count by number come from the
// cache.
func (c *controller) listLive(ctx context.Context) func(schema.GroupResource) generic.ListFuncByNamespace {
	core := c.controllerContext.Client.CoreV1()
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

// list lists the objects of a kind from the cache.
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

// kind returns the metadata cache of a kind, started at the first call.
func (c *controller) kind(gr schema.GroupResource) (cache.SharedIndexInformer, error) {
	c.mu.Lock()
	informer, ok := c.kinds[gr]
	if !ok {
		gvr, err := c.mapper.ResourceFor(gr.WithVersion(""))
		if err != nil {
			c.mapper.Reset() // the kind may be added later
			c.mu.Unlock()
			return nil, fmt.Errorf("no such resource %s: %w", gr, err)
		}
		informer = metadatainformer.NewFilteredMetadataInformer(c.controllerContext.Metadata, gvr, metav1.NamespaceAll,
			0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, nil).Informer()
		c.resyncQueue.WatchAfterStart(informer, func(old, cur runtime.Object) []string {
			if old == nil || cur != nil {
				return nil
			}
			return c.inNamespaceOf(old)
		})
		c.kinds[gr] = informer
		go informer.Run(c.stopCh)
	}
	c.mu.Unlock()
	if !cache.WaitForCacheSync(c.stopCh, informer.HasSynced) {
		return nil, fmt.Errorf("the list of %s ended before it was read", gr)
	}
	return informer, nil
}
