package kubelet

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/intake"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podworker"
)

// forcedGrace is what a Pod gets that was deleted from the API without grace: TERM, and KILL soon after.
const forcedGrace = time.Second

// Run makes the node work until ctx ends. Containers go on; a later Run takes them over.
func (k *Kubelet) Run(ctx context.Context) error {
	if err := k.tree(); err != nil {
		return err
	}
	k.mu.Lock()
	k.join(ctx)
	k.mu.Unlock()
	if k.broadcaster != nil {
		if k.o.Static.Alone {
			k.broadcaster.StartStructuredLogging(0)
		} else {
			k.broadcaster.StartRecordingToSink(events.Limit(&typedv1.EventSinkImpl{Interface: k.o.Client.CoreV1().Events(v1.NamespaceAll)}, k.o.Config))
		}
		defer k.broadcaster.Shutdown()
	}
	var wg sync.WaitGroup
	side := func(f func()) {
		wg.Add(1)
		go func() { defer wg.Done(); f() }()
	}
	stopWriting := k.write(ctx)
	k.pool.Start(ctx)
	side(func() { _ = k.watcher.Run(ctx) }) // ends with ctx
	side(func() { k.sweeps(ctx) })
	side(func() { k.keepHouse(ctx) })
	side(func() { k.collectImages(ctx) })
	if k.adopt(ctx) {
		k.listen(ctx, side)
	}
	<-ctx.Done()
	k.pool.Wait()
	wg.Wait()
	stopWriting()
	return nil
}

// write starts what talks to the API; the function returned ends the writing of statuses, when all workers have ended.
func (k *Kubelet) write(ctx context.Context) (stop func()) {
	if k.o.Static.Alone {
		return func() {}
	}
	k.cluster.Start(ctx)
	writing, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	written := make(chan struct{})
	go func() {
		defer close(written)
		_ = k.statuses.Run(writing) // ends without an error
	}()
	return func() {
		stopWriting()
		<-written
	}
}

// heed turns what a source says into a wish.
func (k *Kubelet) heed(c intake.Change) {
	w := podworker.Wish{Pod: c.Pod, Source: c.Source, Gone: c.Gone}
	now := time.Now()
	switch {
	case c.Gone && c.Forced:
		w.End = &podplan.End{Cause: "deleted without grace", Asked: now, Grace: forcedGrace}
	case c.Gone:
		w.End = &podplan.End{Cause: "removed from its source", Asked: now, Grace: podplan.Grace(c.Pod)}
	case c.Pod.DeletionTimestamp != nil:
		grace := podplan.Grace(c.Pod)
		if s := c.Pod.DeletionGracePeriodSeconds; s != nil {
			grace = time.Duration(*s) * time.Second
		}
		w.End = &podplan.End{Cause: "deleted", Asked: now, Grace: grace}
	}
	if c.Source != intake.API {
		k.mirrors.Has(c.Pod, c.Gone)
	}
	k.pool.Tell(w)
}

// changed rings a Pod's worker; a Pod that nobody knows is looked into.
func (k *Kubelet) changed(uid types.UID) {
	if !k.pool.Ring(uid) {
		k.strayed()
	}
}

// began is called by the watcher when something of a Pod was made or started.
func (k *Kubelet) began(uid types.UID) {
	if !k.pool.Began(uid) {
		k.strayed()
	}
}

// strayed tells that the runtime has something of a Pod that nobody works for.
func (k *Kubelet) strayed() {
	select {
	case k.stray <- struct{}{}:
	default:
	}
}

// keepHouse looks periodically where nobody tells of a change: on the node's disk and in its cgroups. It begins when all sources have spoken.
func (k *Kubelet) keepHouse(ctx context.Context) {
	select {
	case <-k.merge.Synced():
	case <-ctx.Done():
		return
	}
	tick := time.NewTicker(k.o.Housekeeping)
	defer tick.Stop()
	last := ""
	for {
		text := ""
		if err := k.tidy(ctx); err != nil && ctx.Err() == nil {
			if text = err.Error(); text != last {
				klog.FromContext(ctx).Error(err, "Cannot clear away what no Pod owns, trying again")
			}
		}
		last = text
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// sweeps looks for Pods that only the runtime has: once all sources have spoken, and whenever the runtime speaks of a Pod that nobody knows.
func (k *Kubelet) sweeps(ctx context.Context) {
	select {
	case <-k.merge.Synced():
	case <-ctx.Done():
		return
	}
	k.pool.Reconsider()
	for {
		var again <-chan time.Time
		if err := k.sweep(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Cannot end what only the runtime has, trying again")
			again = time.After(10 * time.Second)
		}
		select {
		case <-k.stray:
		case <-again:
		case <-ctx.Done():
			return
		}
		select { // the last events of a Pod that has just left come in a bunch
		case <-time.After(time.Second):
		case <-ctx.Done():
			return
		}
	}
}

func broadcaster(nodeName string) (record.EventBroadcaster, record.EventRecorder) {
	b := record.NewBroadcaster()
	return b, b.NewRecorder(scheme.Scheme, v1.EventSource{Component: "kubelet", Host: nodeName})
}
