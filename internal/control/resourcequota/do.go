// Package resourcequota counts anew what a ResourceQuota's namespace uses and writes it, with the
// limits that are from then on enforced.
//
// Admission adds, this controller counts. In: quotas; Pods, claims and Services; any other kind a
// quota limits the number of. Out: quota status. A quota not counted yet goes before the others.
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

// resync is after how long a quota is counted anew though nothing seems to have changed (upstream's
// five minutes).
const resync = 5 * time.Minute

// recalculationDelay is after how long a quota whose limits changed is counted once more: what was
// created before the API server's own cache knew the new limits was not counted by admission.
const recalculationDelay = time.Second

type controller struct {
	controllerContext          controllerruntime.ControllerContext
	quotas                     corelisters.ResourceQuotaLister
	typed                      map[schema.GroupResource]cache.SharedIndexInformer
	mapper                     *restmapper.DeferredDiscoveryRESTMapper
	priorityQueue, resyncQueue *controllerruntime.Queue

	mu sync.Mutex
	// only metadata; begun when the first quota names the kind
	kinds  map[schema.GroupResource]cache.SharedIndexInformer
	stopCh <-chan struct{}
}

// runner runs the queue of uncounted quotas beside that of all.
type runner struct{ *controller }

// Run runs both until ctx ends.
func (r runner) Run(ctx context.Context) {
	r.stopCh = ctx.Done()
	r.priorityQueue.AddBackground(r.resyncQueue.Run)
	r.priorityQueue.Run(ctx)
}

// New makes the controller.
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
	for _, e := range ownquota.Evaluators(c.list, time.Now) {
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

// quotaChanged takes new limits; what changes in the status is this controller's and admission's
// own doing.
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

// enqueueOverlapping asks for the quotas beside one that is gone: quotas may limit the number of
// quotas.
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
	status, failure := Count(In{Quota: q, List: c.list, Now: time.Now()})
	if IsLower(q.Status, status) { // a cache that has not heard yet of what admission counted would let too much in
		status, failure = Count(In{Quota: q, List: c.listLive(ctx), Now: time.Now()})
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

// listLive gives the objects of a kind as they are stored now; kinds of which only the number
// counts come from the cache.
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
