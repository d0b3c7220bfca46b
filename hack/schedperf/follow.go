package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// stall is how long nothing may be bound before the rest is given up.
const stall = 30 * time.Second

// follower watches Pods of a namespace being bound, from when it is made.
type follower struct {
	mu    sync.Mutex
	bound map[string]time.Time
	more  chan struct{} // capacity one: another was bound

	running sync.WaitGroup
	stop    func()
}

func (b *bed) watch(ctx context.Context, namespace string) (*follower, error) {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{bound: map[string]time.Time{}, more: make(chan struct{}, 1), stop: cancel}
	pods := b.client.CoreV1().Pods(namespace)
	list := &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return pods.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return pods.Watch(ctx, o) },
	}
	informer := cache.NewSharedIndexInformer(list, &v1.Pod{}, 0, cache.Indexers{}) // a watch that a busy server ends is taken up again
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: f.see, UpdateFunc: func(_, is any) { f.see(is) }})
	if err != nil {
		cancel()
		return nil, err
	}
	f.running.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		cancel()
		return nil, fmt.Errorf("listing the Pods of %s: %w", namespace, context.Cause(ctx))
	}
	return f, nil
}

func (f *follower) see(obj any) {
	p, ok := obj.(*v1.Pod)
	if !ok || p.Spec.NodeName == "" {
		return
	}
	f.mu.Lock()
	if f.bound[p.Name].IsZero() {
		f.bound[p.Name] = time.Now()
	}
	f.mu.Unlock()
	select {
	case f.more <- struct{}{}:
	default:
	}
}

func (f *follower) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.bound)
}

// wait returns when n Pods were bound, with those that were; an error when it takes too long.
func (f *follower) wait(ctx context.Context, n int) (bound map[string]time.Time, err error) {
	timer := time.NewTimer(stall)
	defer timer.Stop()
	for f.count() < n && err == nil {
		select {
		case <-f.more:
			timer.Reset(stall)
		case <-timer.C:
			err = fmt.Errorf("%d of %d Pods bound, no more for %s", f.count(), n, stall)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	f.stop()
	f.running.Wait()
	return f.bound, err
}

// churn makes and removes a node and a Service and adds a Pod that fits nowhere, once a second, until stopped; also what Pods of the shape need.
func (b *bed) churn(ctx context.Context, s shape, nodes int) (stop func(), err error) {
	if s.evicts {
		_, err = b.client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 10}, metav1.CreateOptions{})
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
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			_ = b.node(ctx, s.makeNode(nodes+i)) // best effort: the measurement ends when it ends
			big := makePod("sched-0", fmt.Sprintf("big-%d", i))
			big.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("9")
			_ = b.create(ctx, big)
			service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("churn-%d", i)}, Spec: v1.ServiceSpec{Selector: map[string]string{"foo": "bar"}, Ports: []v1.ServicePort{{Port: 8080}}}}
			_, _ = b.client.CoreV1().Services("sched-0").Create(ctx, service, metav1.CreateOptions{})
			if i > 0 {
				_ = b.client.CoreV1().Nodes().Delete(ctx, nodeName(nodes+i-1), metav1.DeleteOptions{})
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}, nil
}

// volume makes a volume of a CSI driver and a claim bound to it.
func (b *bed) volume(ctx context.Context, name string) error {
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	none := ""
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"pv.kubernetes.io/bound-by-controller": "true"}}, Spec: v1.PersistentVolumeSpec{
		Capacity: size, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany}, ClaimRef: &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "sched-1", Name: name},
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "ebs.csi.example.com", VolumeHandle: name}},
	}}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "true"}}, Spec: v1.PersistentVolumeClaimSpec{
		VolumeName: name, StorageClassName: &none, AccessModes: pv.Spec.AccessModes, Resources: v1.VolumeResourceRequirements{Requests: size},
	}}
	made, err := b.client.CoreV1().PersistentVolumeClaims("sched-1").Create(ctx, claim, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: pv.Spec.AccessModes, Capacity: size}
	if made, err = b.client.CoreV1().PersistentVolumeClaims("sched-1").UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	pv.Spec.ClaimRef.UID = made.UID
	if pv, err = b.client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{}); err != nil {
		return err
	}
	pv.Status.Phase = v1.VolumeBound
	_, err = b.client.CoreV1().PersistentVolumes().UpdateStatus(ctx, pv, metav1.UpdateOptions{})
	return err
}
