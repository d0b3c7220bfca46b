package garbagecollector

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// rediscoveryPeriod is how often new resources (CustomResourceDefinitions) are discovered.
const rediscoveryPeriod = 30 * time.Second

const (
	// initialSyncTimeout is how long the lists of all resources are waited for at the start, as
	// upstream: one that cannot be listed does not stop the others for ever.
	initialSyncTimeout = 30 * time.Second
	// discoveryRetry is the time between tries of the first discovery.
	discoveryRetry = 500 * time.Millisecond
)

// ignoredResources change often and never own or are owned.
var ignoredResources = []string{"events", "podjournals"}

// watchResources keeps one metadata watch per deletable resource, following discovery.
func (c *controller) watchResources(ctx context.Context) {
	running := map[schema.GroupVersionResource]context.CancelFunc{}
	c.syncInitially(ctx, running)
	for {
		select {
		case <-ctx.Done():
			for _, stop := range running {
				stop()
			}
			return
		case <-time.After(rediscoveryPeriod):
			c.syncMonitors(ctx, running)
		}
	}
}

// syncInitially returns when the graph holds what there is, or after initialSyncTimeout.
func (c *controller) syncInitially(ctx context.Context, running map[schema.GroupVersionResource]context.CancelFunc) {
	defer close(c.complete)
	limited, cancel := context.WithTimeout(ctx, initialSyncTimeout)
	defer cancel()
	synced := c.syncMonitors(ctx, running)
	for len(running) == 0 { // nothing could be discovered
		select {
		case <-limited.Done():
			return
		case <-time.After(discoveryRetry):
			synced = c.syncMonitors(ctx, running)
		}
	}
	if !cache.WaitForCacheSync(limited.Done(), synced...) && ctx.Err() == nil {
		syncErrors.Inc()
		klog.FromContext(ctx).Info("Not all resources could be listed: their objects are not known as dependents",
			"controller", "ownergc", "after", initialSyncTimeout)
	}
}

// syncMonitors watches what is served and no longer what is not. It returns what tells that the
// objects of the resources new to it are in the graph.
func (c *controller) syncMonitors(ctx context.Context,
	running map[schema.GroupVersionResource]context.CancelFunc) (synced []cache.InformerSynced) {
	served, err := c.deletableResources()
	if len(served) == 0 {
		syncErrors.Inc()
	}
	if err != nil {
		klog.FromContext(ctx).V(1).Info("Discovery is incomplete; known resources stay watched", "controller",
			"ownergc", "err", err)
	}
	for r := range served {
		if running[r] == nil {
			watching, stop := context.WithCancel(ctx)
			running[r] = stop
			synced = append(synced, c.watchResource(watching, r))
		}
	}
	if err != nil {
		return synced
	}
	for r, stop := range running {
		if !served[r] {
			stop()
			delete(running, r)
			c.removeResource(r)
		}
	}
	return synced
}

func (c *controller) deletableResources() (map[schema.GroupVersionResource]bool, error) {
	lists, err := c.controllerContext.Client.Discovery().ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) && !apierrors.IsServiceUnavailable(err) {
		return nil, err
	}
	out := map[schema.GroupVersionResource]bool{}
	for _, l := range lists {
		gv, parseErr := schema.ParseGroupVersion(l.GroupVersion)
		if parseErr != nil {
			return out, parseErr
		}
		for _, r := range l.APIResources {
			whole := slices.Contains(r.Verbs, "delete") && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs,
				"watch")
			if whole && !strings.Contains(r.Name, "/") && !slices.Contains(ignoredResources, r.Name) {
				out[gv.WithResource(r.Name)] = true
			}
		}
	}
	return out, err
}

// watchResource watches a resource until ctx ends. What it returns tells that the objects of the
// first list are in the graph.
func (c *controller) watchResource(ctx context.Context, r schema.GroupVersionResource) cache.InformerSynced {
	never := func() bool { return false }
	if r == corev1.SchemeGroupVersion.WithResource("pods") {
		// Pods are written most, and other controllers have an informer already.
		handler, err := c.pods.AddEventHandler(c.handlerFor(r))
		if err != nil {
			return never // the informer has stopped: the process ends
		}
		context.AfterFunc(ctx, func() { _ = c.pods.RemoveEventHandler(handler) })
		return handler.HasSynced
	}
	informer := metadatainformer.NewFilteredMetadataInformer(c.controllerContext.Metadata, r, metav1.NamespaceAll, 0,
		cache.Indexers{}, nil).Informer()
	_ = informer.SetTransform(trimToOwnerReferences) // SetTransform only fails on a started informer
	handler, err := informer.AddEventHandler(c.handlerFor(r))
	if err != nil {
		return never // it fails on a stopped informer only
	}
	go informer.Run(ctx.Done())
	return handler.HasSynced
}

// handlerFor puts events of a resource's objects into the graph.
func (c *controller) handlerFor(r schema.GroupVersionResource) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.addToGraph(objectOf(r, obj.(metav1.Object))) },
		UpdateFunc: func(_, obj any) { c.addToGraph(objectOf(r, obj.(metav1.Object))) },
		DeleteFunc: func(obj any) {
			if deleted, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = deleted.Obj
			}
			if m, ok := obj.(metav1.Object); ok {
				c.removeFromGraph(m.GetUID())
			}
		},
	}
}

// trimToOwnerReferences is an informer transform that keeps what the graph needs.
func trimToOwnerReferences(obj any) (any, error) {
	m, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	return &metav1.PartialObjectMetadata{TypeMeta: m.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		OwnerReferences: m.OwnerReferences, Finalizers: m.Finalizers, DeletionTimestamp: m.DeletionTimestamp,
	}}, nil
}

func objectOf(r schema.GroupVersionResource, m metav1.Object) *Object {
	return &Object{
		Resource: r, Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUID(), Owners: m.GetOwnerReferences(),
		Finalizers: m.GetFinalizers(), Deleting: m.GetDeletionTimestamp() != nil,
	}
}

// removeResource drops every object of a resource that is no longer served.
func (c *controller) removeResource(r schema.GroupVersionResource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, o := range c.graph.objects {
		if o.Resource == r {
			c.enqueue(c.graph.Drop(uid))
		}
	}
}
