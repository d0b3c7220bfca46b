// Package garbagecollector deletes objects whose owners are gone, and carries out foreground and
// orphaning deletion.
//
// In: the metadata of every object of every deletable resource. Out: deletions, removed owner
// references and finalizers. An owner that the graph lacks is read from the API server before
// anything is deleted because of it.
package garbagecollector

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/journal"
)

type controller struct {
	controllerContext controllerruntime.ControllerContext
	mapper            *restmapper.DeferredDiscoveryRESTMapper
	queue             *controllerruntime.Queue
	pods              cache.SharedIndexInformer
	// complete is closed when the graph holds what there is. Until then nothing is decided: an
	// owner whose dependents are not listed yet would seem to have none.
	complete chan struct{}

	mu    sync.Mutex
	graph *Graph
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	return newController(d).queue
}

// Feed tells the controller of a change of an object; old is nil for a new one, cur for one that is
// gone.
type Feed func(r schema.GroupVersionResource, old, cur metav1.Object)

// NewFed returns the controller without watches of its own: its caller feeds it with every change
// of every object that owns or is owned.
func NewFed(d controllerruntime.ControllerContext) (controllerruntime.Runner, Feed) {
	c := newUnwatched(d)
	close(c.complete)
	return c.queue, func(r schema.GroupVersionResource, old, cur metav1.Object) {
		if cur == nil {
			c.removeFromGraph(old.GetUID())
			return
		}
		c.addToGraph(objectOf(r, cur))
	}
}

func newController(d controllerruntime.ControllerContext) *controller {
	c := newUnwatched(d)
	c.queue.AddBackground(c.watchResources)
	return c
}

func newUnwatched(d controllerruntime.ControllerContext) *controller {
	c := &controller{
		controllerContext: d, graph: NewGraph(), complete: make(chan struct{}),
		pods:   d.Informers.Core().V1().Pods().Informer(),
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d.Client.Discovery())),
	}
	c.queue = controllerruntime.NewQueue("ownergc", 8, c.attemptToDeleteItem)
	return c
}

func (c *controller) enqueue(uids []types.UID) {
	for _, uid := range uids {
		c.queue.Add(string(uid))
	}
}

func (c *controller) addToGraph(o *Object) {
	c.mu.Lock()
	enqueue := c.graph.Put(o)
	c.mu.Unlock()
	c.enqueue(enqueue)
}

func (c *controller) removeFromGraph(uid types.UID) {
	c.mu.Lock()
	enqueue := c.graph.Drop(uid)
	c.mu.Unlock()
	c.enqueue(enqueue)
}

func (c *controller) attemptToDeleteItem(ctx context.Context, key string) (time.Duration, error) {
	select {
	case <-c.complete:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	c.mu.Lock()
	o, dependents := c.graph.Get(types.UID(key))
	c.mu.Unlock()
	if o == nil {
		return 0, nil
	}
	if o.orphansDependents() {
		return 0, c.orphanDependents(ctx, o, dependents)
	}
	if o.waitsForDependents() {
		return 0, c.advanceForeground(ctx, o, dependents)
	}
	owners, err := c.resolveOwners(ctx, o)
	if err != nil {
		return 0, err
	}
	deleted, err := c.do(ctx, o, Decide(o, owners, dependents), dependents)
	if deleted {
		c.record(o, owners)
	}
	return 0, err
}

// resolveOwners returns the state of an object's owners. A missing one is confirmed by the API
// server.
func (c *controller) resolveOwners(ctx context.Context, o *Object) ([]Owner, error) {
	out := make([]Owner, 0, len(o.Owners))
	for _, ref := range o.Owners {
		c.mu.Lock()
		known, _ := c.graph.Get(ref.UID)
		c.mu.Unlock()
		if known != nil && (known.Namespace == "" || known.Namespace == o.Namespace) {
			out = append(out, Owner{Ref: ref, Exists: true, WaitsForDependents: known.waitsForDependents()})
			continue
		}
		w, err := c.fetchOwner(ctx, o.Namespace, ref)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

func (c *controller) fetchOwner(ctx context.Context, namespace string, ref metav1.OwnerReference) (Owner, error) {
	client, err := c.clientOf(namespace, ref)
	if err != nil {
		return Owner{}, err
	}
	live, err := client.Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Owner{Ref: ref}, nil
	}
	if err == nil && live.UID != ref.UID {
		return Owner{Ref: ref, Other: live.UID}, nil
	}
	if err != nil {
		return Owner{}, fmt.Errorf("owner %s %s of kind %s: %w", ref.APIVersion, ref.Name, ref.Kind, err)
	}
	waits := live.DeletionTimestamp != nil && slices.Contains(live.Finalizers, metav1.FinalizerDeleteDependents)
	return Owner{Ref: ref, Exists: true, WaitsForDependents: waits}, nil
}

func (c *controller) clientOf(namespace string, ref metav1.OwnerReference) (metadata.ResourceInterface, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, err
	}
	mapping, err := c.mapper.RESTMapping(gv.WithKind(ref.Kind).GroupKind(), gv.Version)
	if meta.IsNoMatchError(err) {
		c.mapper.Reset()
		mapping, err = c.mapper.RESTMapping(gv.WithKind(ref.Kind).GroupKind(), gv.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("owner of kind %s: %w", gv.WithKind(ref.Kind), err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return c.controllerContext.Metadata.Resource(mapping.Resource).Namespace(namespace), nil
	}
	return c.controllerContext.Metadata.Resource(mapping.Resource), nil
}

func (c *controller) client(o *Object) metadata.ResourceInterface {
	if o.Namespace == "" {
		return c.controllerContext.Metadata.Resource(o.Resource)
	}
	return c.controllerContext.Metadata.Resource(o.Resource).Namespace(o.Namespace)
}

// record puts into the journal why an object was deleted.
func (c *controller) record(o *Object, owners []Owner) {
	kind, err := c.mapper.KindFor(o.Resource)
	if err != nil || c.controllerContext.Journal == nil {
		return
	}
	c.controllerContext.Journal.Put(journal.Ref{Kind: kind.Kind, Namespace: o.Namespace, Name: o.Name,
		UID: string(o.UID)}, journal.Acted{Controller: "garbagecollector", Action: "deletes the " + kind.Kind,
		Message: Reason(owners)})
}

// do carries a decision out, and reports whether the object was deleted.
func (c *controller) do(ctx context.Context, o *Object, v Decision, dependents []*Object) (deleted bool, err error) {
	if len(v.RemoveOwners) > 0 {
		return false, c.removeOwnerReferences(ctx, o, v.RemoveOwners)
	}
	if !v.Delete {
		return false, nil
	}
	if v.UnblockDeletion {
		if err := c.unblockOwnerDeletion(ctx, o); err != nil {
			return false, err
		}
	}
	return c.deleteObject(ctx, o, v.Propagation)
}

// deleteObject deletes an object if its owner references are still those that were evaluated:
// resources are watched separately, so that the event of an owner's deletion may arrive before that
// of the object's orphaning. It reports whether it was this call that did.
func (c *controller) deleteObject(ctx context.Context, o *Object, how metav1.DeletionPropagation) (bool, error) {
	live, err := c.client(o).Get(ctx, o.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) ||
		err == nil && (live.UID != o.UID || !slices.EqualFunc(live.OwnerReferences, o.Owners, sameOwner)) {
		return false, nil // its watch event follows
	}
	if err != nil {
		return false, err
	}
	err = c.client(o).Delete(ctx, o.Name, metav1.DeleteOptions{PropagationPolicy: &how,
		Preconditions: &metav1.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion}})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err // a conflict is retried
}

func sameOwner(a, b metav1.OwnerReference) bool { return a.UID == b.UID }

// orphanDependents removes the object from its dependents' owner references and then the orphan
// finalizer.
func (c *controller) orphanDependents(ctx context.Context, o *Object, dependents []*Object) error {
	for _, d := range dependents {
		if err := c.removeOwnerReferences(ctx, d, []types.UID{o.UID}); err != nil {
			return err
		}
	}
	return c.removeFinalizer(ctx, o, metav1.FinalizerOrphanDependents)
}

// advanceForeground removes the finalizer if nothing blocks any more; otherwise it has the
// dependents processed.
func (c *controller) advanceForeground(ctx context.Context, o *Object, dependents []*Object) error {
	blocking := BlockingDependents(o.UID, dependents)
	if len(blocking) == 0 {
		return c.removeFinalizer(ctx, o, metav1.FinalizerDeleteDependents)
	}
	for _, d := range blocking {
		if !d.Deleting {
			c.queue.Add(string(d.UID))
		}
	}
	return nil
}

func (c *controller) removeOwnerReferences(ctx context.Context, o *Object, owners []types.UID) error {
	return c.patchMetadata(ctx, o, func(m *metav1.PartialObjectMetadata) map[string]any {
		retained := slices.DeleteFunc(slices.Clone(m.OwnerReferences),
			func(r metav1.OwnerReference) bool { return slices.Contains(owners, r.UID) })
		if len(retained) == len(m.OwnerReferences) {
			return nil
		}
		return map[string]any{"ownerReferences": retained}
	})
}

func (c *controller) unblockOwnerDeletion(ctx context.Context, o *Object) error {
	return c.patchMetadata(ctx, o, func(m *metav1.PartialObjectMetadata) map[string]any {
		refs := slices.Clone(m.OwnerReferences)
		no := false
		for i := range refs {
			refs[i].BlockOwnerDeletion = &no
		}
		return map[string]any{"ownerReferences": refs}
	})
}

func (c *controller) removeFinalizer(ctx context.Context, o *Object, finalizer string) error {
	return c.patchMetadata(ctx, o, func(m *metav1.PartialObjectMetadata) map[string]any {
		retained := slices.DeleteFunc(slices.Clone(m.Finalizers), func(f string) bool { return f == finalizer })
		if len(retained) == len(m.Finalizers) {
			return nil
		}
		return map[string]any{"finalizers": retained}
	})
}

// patchMetadata sends a merge patch of metadata computed from the live object, with its
// resourceVersion. change returns nil if there is nothing to do.
func (c *controller) patchMetadata(ctx context.Context, o *Object,
	change func(*metav1.PartialObjectMetadata) map[string]any) error {
	live, err := c.client(o).Get(ctx, o.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && live.UID != o.UID {
		return nil
	}
	if err != nil {
		return err
	}
	fields := change(live)
	if fields == nil {
		return nil
	}
	fields["resourceVersion"], fields["uid"] = live.ResourceVersion, live.UID
	body, err := json.Marshal(map[string]any{"metadata": fields})
	if err != nil {
		return err
	}
	_, err = c.client(o).Patch(ctx, o.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
