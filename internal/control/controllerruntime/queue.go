package controllerruntime

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
)

// ControllerContext are the parts a controller may use.
type ControllerContext struct {
	Client    kubernetes.Interface
	Metadata  metadata.Interface
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder
	Journal   journal.Sink
	RootCA    []byte // PEM that Pods verify the API server with
	// NodeRanges are the ranges that nodes get parts of.
	NodeRanges NodeRanges
	// NodeQuarantine is how long a node must have been missing before its Pods are given up; 0 is
	// upstream's 40 s.
	NodeQuarantine time.Duration
}

// NodeRanges say what nodes get for their Pods.
type NodeRanges struct {
	Cluster            string // --cluster-cidr; empty: nodes get none
	MaskIPv4, MaskIPv6 int    // length of a node's part; 0: 24 and 64
	Services           []string
}

// ControllerDescriptor is one row of control.All.
type ControllerDescriptor struct {
	Name           string
	EventSource    string // component of its events, as upstream names it
	ServiceAccount string // service account in kube-system whose role it works under
	Constructor    func(ControllerContext) Runner
}

// Runner works until the context ends.
type Runner interface{ Run(ctx context.Context) }

// SyncHandler looks at one key and brings it nearer to what it should be. A positive duration asks
// for another look then.
type SyncHandler func(ctx context.Context, key string) (again time.Duration, err error)

// Queue calls a SyncHandler for each key that was added, one worker per key at a time.
type Queue struct {
	name        string
	syncHandler SyncHandler
	workers     int
	queue       workqueue.TypedRateLimitingInterface[string]
	synced      []cache.InformerSynced
	background  []func(ctx context.Context)
}

// NewQueue makes a queue for a controller of that name.
func NewQueue(name string, workers int, sync SyncHandler) *Queue {
	limits := workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 30*time.Second)
	return &Queue{
		name: name, syncHandler: sync, workers: workers,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(limits,
			workqueue.TypedRateLimitingQueueConfig[string]{Name: name, Clock: slowTickClock{}}),
	}
}

// Add asks for a look at key now.
func (q *Queue) Add(key string) { q.queue.Add(key) }

// AddAfter asks for a look at key after d.
func (q *Queue) AddAfter(key string, d time.Duration) { q.queue.AddAfter(key, d) }

// AddBackground runs f beside the workers, for as long as the queue runs.
func (q *Queue) AddBackground(f func(ctx context.Context)) { q.background = append(q.background, f) }

// Watch asks for a look at keys(old, new) on each change that informer reports; old or new is nil
// on addition and removal.
func (q *Queue) Watch(informer cache.SharedIndexInformer, keys func(old, cur runtime.Object) []string) {
	q.WatchAfterStart(informer, keys)
	q.synced = append(q.synced, informer.HasSynced)
}

// WatchAfterStart is Watch for an informer that begins while the queue runs: the workers do not
// wait for its first list.
func (q *Queue) WatchAfterStart(informer cache.SharedIndexInformer, keys func(old, cur runtime.Object) []string) {
	add := func(old, cur any) {
		o, _ := old.(runtime.Object)
		c, _ := cur.(runtime.Object)
		for _, k := range keys(o, c) {
			q.queue.Add(k)
		}
	}
	// AddEventHandler fails only on an informer that has stopped, which ends with this process.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(cur any) { add(nil, cur) },
		UpdateFunc: func(old, cur any) { add(old, cur) },
		DeleteFunc: func(old any) {
			if deleted, ok := old.(cache.DeletedFinalStateUnknown); ok {
				old = deleted.Obj
			}
			add(old, nil)
		},
	})
}

// WaitForInformers makes the workers wait for the first list of informers that are only read.
func (q *Queue) WaitForInformers(informers ...cache.SharedIndexInformer) {
	for _, i := range informers {
		q.synced = append(q.synced, i.HasSynced)
	}
}

// WatchByKey asks for a look at the object's own key on each change.
func (q *Queue) WatchByKey(informer cache.SharedIndexInformer) {
	q.Watch(informer, func(old, cur runtime.Object) []string {
		if cur == nil {
			cur = old
		}
		key, err := cache.MetaNamespaceKeyFunc(cur)
		if err != nil {
			return nil
		}
		return []string{key}
	})
}

// Run works until ctx ends; it begins when the watched informers have their first list.
func (q *Queue) Run(ctx context.Context) {
	defer q.queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), q.synced...) {
		return
	}
	var wg sync.WaitGroup
	for range q.workers {
		wg.Go(func() {
			for q.processNextWorkItem(ctx) {
			}
		})
	}
	for _, f := range q.background {
		wg.Go(func() { f(ctx) })
	}
	<-ctx.Done()
	q.queue.ShutDown()
	wg.Wait()
}

func (q *Queue) processNextWorkItem(ctx context.Context) bool {
	key, down := q.queue.Get()
	if down {
		return false
	}
	defer q.queue.Done(key)
	again, err := q.syncRecovering(ctx, key)
	switch {
	case err != nil && ctx.Err() == nil:
		klog.FromContext(ctx).V(2).Info("Sync failed, will be tried again", "controller", q.name, "key", key,
			"err", err)
		q.queue.AddRateLimited(key)
	case again > 0:
		q.queue.Forget(key)
		q.queue.AddAfter(key, again)
	default:
		q.queue.Forget(key)
	}
	return true
}

// syncRecovering turns a panic of one key into an error of that key: one bad object must not end
// the process.
func (q *Queue) syncRecovering(ctx context.Context, key string) (again time.Duration, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("controller %s panicked on %s: %v", q.name, key, p)
			klog.FromContext(ctx).Error(err, "Please report this")
		}
	}()
	return q.syncHandler(ctx, key)
}
