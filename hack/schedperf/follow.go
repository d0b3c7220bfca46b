package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// stallTimeout is how long nothing may be bound before the rest is given up.
const stallTimeout = 30 * time.Second

// follower watches Pods of a namespace being bound, from its creation on.
type follower struct {
	mu      sync.Mutex
	old     map[string]time.Time // bound before: ignored
	bound   map[string]time.Time
	refused map[string]bool // refused, and not bound since
	changed chan struct{}   // capacity 1: another Pod was bound

	running sync.WaitGroup
	stop    func()
}

func (b *testbed) watch(ctx context.Context, namespace string) (*follower, error) {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{bound: map[string]time.Time{}, refused: map[string]bool{}, changed: make(chan struct{}, 1),
		stop: cancel}
	pods := b.client.CoreV1().Pods(namespace)
	list := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, o)
		},
	}
	// restarts a watch that a busy server ends
	informer := cache.NewSharedIndexInformer(list, &v1.Pod{}, 0, cache.Indexers{})
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: f.onPod,
		UpdateFunc: func(_, is any) { f.onPod(is) }})
	if err != nil {
		cancel()
		return nil, err
	}
	f.running.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		cancel()
		return nil, fmt.Errorf("listing the Pods of %s: %w", namespace, context.Cause(ctx))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.old, f.bound = f.bound, map[string]time.Time{}
	return f, nil
}

func (f *follower) onPod(obj any) {
	p, ok := obj.(*v1.Pod)
	if !ok {
		return
	}
	f.mu.Lock()
	switch {
	case !f.old[p.Name].IsZero():
	case p.Spec.NodeName == "" && slices.ContainsFunc(p.Status.Conditions, refused):
		f.refused[p.Name] = true
	case p.Spec.NodeName != "":
		delete(f.refused, p.Name)
		if f.bound[p.Name].IsZero() {
			f.bound[p.Name] = time.Now()
		}
	}
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func refused(c v1.PodCondition) bool {
	return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse
}

// answered returns how many Pods were bound or refused.
func (f *follower) answered() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.bound) + len(f.refused)
}

// waitStable returns when n Pods were bound or refused, with the bound ones; if there is no
// progress any more, those there are.
func (f *follower) waitStable(ctx context.Context, n int) map[string]time.Time {
	timer := time.NewTimer(stallTimeout)
	defer timer.Stop()
	for f.answered() < n {
		select {
		case <-f.changed:
			timer.Reset(stallTimeout)
			continue
		case <-timer.C:
		case <-ctx.Done():
		}
		break
	}
	f.stop()
	f.running.Wait()
	return f.bound
}

func (f *follower) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.bound)
}

// wait returns when n Pods were bound, with the bound ones; an error after a timeout.
func (f *follower) wait(ctx context.Context, n int) (bound map[string]time.Time, err error) {
	timer := time.NewTimer(stallTimeout)
	defer timer.Stop()
	for f.count() < n && err == nil {
		select {
		case <-f.changed:
			timer.Reset(stallTimeout)
		case <-timer.C:
			err = fmt.Errorf("%d of %d Pods bound, no more for %s", f.count(), n, stallTimeout)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	f.stop()
	f.running.Wait()
	return f.bound, err
}

// churn creates and deletes a node and a Service and adds a Pod that fits nowhere, once a second,
// until stop is called; also what Pods of the shape need.
func (b *testbed) churn(ctx context.Context, s workload, of part) (stop func(), err error) {
	if s.evicts {
		_, err = b.client.SchedulingV1().PriorityClasses().Create(ctx,
			&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 10}, metav1.CreateOptions{})
	}
	if apierrors.IsAlreadyExists(err) {
		err = nil
	}
	if !s.churn || err != nil {
		return func() {}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for i := of.from; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			_ = b.node(ctx, s.makeNode(of.nodes+i)) // best effort: the measurement ends when it ends
			big := makePod("sched-0", fmt.Sprintf("big-%d", i))
			big.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("9")
			_ = b.create(ctx, big)
			service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("churn-%d", i)},
				Spec: v1.ServiceSpec{Selector: map[string]string{"foo": "bar"}, Ports: []v1.ServicePort{{Port: 8080}}}}
			_, _ = b.client.CoreV1().Services("sched-0").Create(ctx, service, metav1.CreateOptions{})
			if i > of.from {
				_ = b.client.CoreV1().Nodes().Delete(ctx, nodeName(of.nodes+i-1), metav1.DeleteOptions{})
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}, nil
}
