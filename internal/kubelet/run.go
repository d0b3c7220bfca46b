package kubelet

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podsource"
	"github.com/gantry-project/gantry/internal/kubelet/podworker"
	"github.com/gantry-project/gantry/internal/pod"
)

// forcedGrace is what a Pod gets that was deleted from the API without grace: TERM, and KILL soon
// after.
const forcedGrace = time.Second

// Run makes the node work until ctx ends. Containers go on; a later Run takes them over.
func (k *Kubelet) Run(ctx context.Context) error {
	if err := k.createCgroups(); err != nil {
		return err
	}
	k.mu.Lock()
	k.initializeModules(ctx)
	k.mu.Unlock()
	if k.broadcaster != nil {
		if k.opts.StaticPods.Standalone {
			k.broadcaster.StartStructuredLogging(0)
		} else {
			k.broadcaster.StartRecordingToSink(
				events.Limit(&typedv1.EventSinkImpl{Interface: k.opts.Client.CoreV1().Events(v1.NamespaceAll)},
					k.opts.Config))
		}
		defer k.broadcaster.Shutdown()
	}
	var wg sync.WaitGroup
	side := func(f func()) {
		wg.Add(1)
		go func() { defer wg.Done(); f() }()
	}
	if retry := k.enforceNodeAllocatable(ctx); retry != nil {
		side(retry)
	}
	waitDevices, err := k.startDevices(ctx)
	if err != nil {
		return err
	}
	side(waitDevices)
	stopWriting := k.startWriters(ctx)
	k.podWorkers.Start(ctx)
	side(func() { _ = k.pleg.Run(ctx) }) // ends with ctx
	side(func() { k.runOrphanTermination(ctx) })
	side(func() { k.housekeeping(ctx) })
	side(func() { k.runImageGC(ctx) })
	side(func() { k.runPluginManager(ctx) })
	if !k.opts.StaticPods.Standalone {
		side(func() { k.csi.nodeInfo.Initialize(ctx) })
	}
	if k.csi.health != nil {
		side(func() { k.csi.health.Run(ctx) })
	}
	side(func() { k.runCPUReconcile(ctx) })
	if k.adoptPods(ctx) {
		k.startSources(ctx, side)
	}
	<-ctx.Done()
	k.podWorkers.Wait()
	wg.Wait()
	stopWriting()
	return nil
}

// startWriters starts what talks to the API; the function returned ends the writing of statuses,
// when all workers have ended.
func (k *Kubelet) startWriters(ctx context.Context) (stop func()) {
	if k.opts.StaticPods.Standalone {
		return func() {}
	}
	k.cluster.Start(ctx)
	writing, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	written := make(chan struct{})
	go func() {
		defer close(written)
		_ = k.statusManager.Run(writing) // ends without an error
	}()
	return func() {
		stopWriting()
		<-written
	}
}

// handlePodUpdate brings what a source says to the Pod's worker (upstream: syncLoop with
// HandlePodAdditions, HandlePodUpdates, HandlePodRemoves and HandlePodReconcile).
func (k *Kubelet) handlePodUpdate(c podsource.PodUpdate) {
	w := podworker.UpdatePodOptions{Pod: c.Pod, Source: c.Source, Gone: c.Removed}
	now := time.Now()
	switch {
	case c.Removed && c.Forced:
		w.Termination = &podplan.Termination{Cause: "deleted without grace", RequestedAt: now, Grace: forcedGrace}
	case c.Removed:
		w.Termination = &podplan.Termination{Cause: "removed from its source", RequestedAt: now,
			Grace: pod.GracePeriod(&c.Pod.Spec)}
	case c.Pod.DeletionTimestamp != nil:
		w.Termination = &podplan.Termination{Cause: "deleted", RequestedAt: now, Grace: pod.DeletionGracePeriod(c.Pod)}
	}
	if c.Source != podsource.API {
		k.mirrorPods.SetStaticPod(c.Pod, c.Removed)
	}
	k.podWorkers.UpdatePod(w)
}

// podChanged notifies a Pod's worker; a Pod that nobody knows is looked into.
func (k *Kubelet) podChanged(uid types.UID) {
	if !k.podWorkers.Wake(uid) {
		k.noteOrphan()
	}
}

// podStarted is called by the watcher when something of a Pod was made or started.
func (k *Kubelet) podStarted(uid types.UID) {
	if !k.podWorkers.WakeForStart(uid) {
		k.noteOrphan()
	}
}

// noteOrphan tells that the runtime has something of a Pod that nobody works for.
func (k *Kubelet) noteOrphan() {
	select {
	case k.orphanSeen <- struct{}{}:
	default:
	}
}

// housekeeping looks periodically where nobody tells of a change: on the node's disk and in its
// cgroups. It begins when all sources have spoken.
func (k *Kubelet) housekeeping(ctx context.Context) {
	select {
	case <-k.podConfig.Synced():
	case <-ctx.Done():
		return
	}
	tick := time.NewTicker(k.opts.Housekeeping)
	defer tick.Stop()
	last := ""
	for {
		text := ""
		if err := k.cleanupOrphanedResources(ctx); err != nil && ctx.Err() == nil {
			if text = err.Error(); text != last {
				klog.FromContext(ctx).Error(err, "Cannot clear away what no Pod owns, trying again")
				if left, ok := errors.AsType[leftLogsError](err); ok {
					k.recordContainerGC(left)
				}
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

// runOrphanTermination looks for Pods that only the runtime has: once all sources have spoken, and
// whenever the runtime speaks of a Pod that nobody knows.
func (k *Kubelet) runOrphanTermination(ctx context.Context) {
	select {
	case <-k.podConfig.Synced():
	case <-ctx.Done():
		return
	}
	k.podWorkers.SourcesReady()
	for {
		var retry <-chan time.Time
		if err := k.terminateOrphanedPods(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Cannot end what only the runtime has, trying again")
			retry = time.After(10 * time.Second)
		}
		select {
		case <-k.orphanSeen:
		case <-retry:
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
