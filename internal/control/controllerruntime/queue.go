package controllerruntime

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// ControllerContext is what a controller's constructor gets.
type ControllerContext struct {
	Client    kubernetes.Interface
	Metadata  metadata.Interface
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder
	Journal   journal.Sink
	RootCA    []byte // CA certificate in PEM with which Pods verify the API server
	// NodeRanges are the ranges from which nodes get Pod CIDRs.
	NodeRanges NodeRanges
	// NodeQuarantine is how long a Node object must have been missing before its Pods are deleted;
	// 0: upstream's 40 s.
	NodeQuarantine time.Duration
	// NodeMonitorGracePeriod is how long a node may not report before it is unreachable; 0:
	// upstream's 50 s.
	NodeMonitorGracePeriod time.Duration
	// HorizontalPodAutoscaling configures that controller; nil: as upstream's.
	HorizontalPodAutoscaling *HorizontalPodAutoscaling
	// ServiceAccountToken signs the token of a Secret; nil: none are made, there is no key.
	ServiceAccountToken func(account *corev1.ServiceAccount, secret *corev1.Secret) (string, error)
	// LegacyTokenCleanUpPeriod is how long a generated token must not have been used before it is
	// marked invalid, and then before it is deleted; 0: upstream's year.
	LegacyTokenCleanUpPeriod time.Duration
	// PodGroups tells that PodGroups are served.
	PodGroups bool
	// Volumes configures controllers of volumes.
	Volumes Volumes
	// Now is the clock by which controllers decide; nil: the wall clock. With a clock of its own a
	// sync makes its requests one after the other, so that two runs are the same.
	Now func() time.Time
}

// Volumes configures controllers of volumes; the zero value is upstream's default.
type Volumes struct {
	// NoUnusedClaims leaves out the condition Unused of claims
	// (PersistentVolumeClaimUnusedSinceTime).
	NoUnusedClaims bool
	// NoForcedDetach has a volume stay attached that a node which does not report still uses, until
	// the node says that it does not, is gone, or is out of service.
	NoForcedDetach bool
}

// Each calls do for 0 to n-1: side by side, or in order when d has a clock of its own.
func (d ControllerContext) Each(n int, do func(i int)) {
	if d.Now != nil {
		for i := range n {
			do(i)
		}
		return
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// Time returns the present time by the clock of d.
func (d ControllerContext) Time() time.Time {
	if d.Now == nil {
		return time.Now()
	}
	return d.Now()
}

// NodeRanges configures the allocation of Pod CIDRs to nodes.
type NodeRanges struct {
	Cluster            string // --cluster-cidr; empty: no allocation
	MaskIPv4, MaskIPv6 int    // prefix length of a node's CIDR; 0: 24 and 64
	Services           []string
}

// ControllerDescriptor is one row of control.All.
type ControllerDescriptor struct {
	Name           string
	EventSource    string // component of its events, as upstream names it
	ServiceAccount string // service account in kube-system whose role it has; "": the controllers' own user
	Constructor    func(ControllerContext) Runner
}

// Runner runs until ctx ends.
type Runner interface{ Run(ctx context.Context) }

// Idle is a Runner that has nothing to do: what it would work with is not there.
type Idle struct{}

// Run implements Runner.
func (Idle) Run(ctx context.Context) { <-ctx.Done() }

// SyncHandler reconciles one key. A positive again requests another sync after that time; after an
// error the queue retries with back-off.
type SyncHandler func(ctx context.Context, key string) (again time.Duration, err error)

// Queue calls a SyncHandler for each added key, for one key by one worker at a time. Watch,
// WatchByKey, WaitForInformers and AddBackground must be called before Run.
type Queue struct {
	name        string
	syncHandler SyncHandler
	workers     int
	queue       keyQueue
	synced      []cache.InformerSynced
	background  []func(ctx context.Context)
}

// NewQueue returns a queue; name labels its metrics and logs. Retries back off from 5 ms to 30 s.
func NewQueue(name string, workers int, sync SyncHandler) *Queue {
	limits := workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 30*time.Second)
	return &Queue{
		name: name, syncHandler: sync, workers: workers,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(limits,
			workqueue.TypedRateLimitingQueueConfig[string]{Name: name, Clock: slowTickClock{}}),
	}
}

// Add requests a sync of key now.
func (q *Queue) Add(key string) { q.queue.Add(key) }

// AddAfter requests a sync of key after d.
func (q *Queue) AddAfter(key string, d time.Duration) { q.queue.AddAfter(key, d) }

// AddBackground runs f beside the workers; f must return when ctx ends.
func (q *Queue) AddBackground(f func(ctx context.Context)) { q.background = append(q.background, f) }

// Watch requests a sync of keys(old, cur) on each event of the informer; old is nil on addition,
// cur on deletion. Workers wait for the informer's first list.
func (q *Queue) Watch(informer cache.SharedIndexInformer, keys func(old, cur runtime.Object) []string) {
	q.WatchAfterStart(informer, keys)
	q.synced = append(q.synced, informer.HasSynced)
}

// WatchAfterStart is Watch for an informer that starts later: workers do not wait for its first
// list.
func (q *Queue) WatchAfterStart(informer cache.SharedIndexInformer, keys func(old, cur runtime.Object) []string) {
	add := func(old, cur any) {
		o, _ := old.(runtime.Object)
		c, _ := cur.(runtime.Object)
		for _, k := range keys(o, c) {
			q.queue.Add(k)
		}
	}
	// AddEventHandler only fails on an informer that has stopped, and then the process is about to
	// end.
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

// WaitForInformers makes workers wait for the first list of informers that are only read.
func (q *Queue) WaitForInformers(informers ...cache.SharedIndexInformer) {
	for _, i := range informers {
		q.synced = append(q.synced, i.HasSynced)
	}
}

// WatchByKey requests a sync of the object's own key on each event.
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

// Run starts the workers once the informers have synced, and returns when ctx has ended and all
// workers have returned.
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
	q.process(ctx, key)
	return true
}

// process syncs a key that was taken off the queue, and has it tried again if it should be.
func (q *Queue) process(ctx context.Context, key string) {
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
}

// syncRecovering turns a panic for one key into an error, so that one bad object does not end the
// process.
func (q *Queue) syncRecovering(ctx context.Context, key string) (again time.Duration, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("controller %s panicked on %s: %v", q.name, key, p)
			klog.FromContext(ctx).Error(err, "Please report this")
		}
	}()
	return q.syncHandler(ctx, key)
}
