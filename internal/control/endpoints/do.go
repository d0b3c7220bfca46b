// Package endpoints maintains the Endpoints object of each Service, for old clients that do not
// read EndpointSlices.
//
// In: Services with a selector, Pods. Out: one Endpoints object of the same name.
package endpoints

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/endpointslice/util"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/control/endpointslice"
)

type controller struct {
	controllerContext controllerruntime.ControllerContext
	services          corelisters.ServiceLister
	pods              corelisters.PodLister
	endpoints         corelisters.EndpointsLister
	triggers          *util.TriggerTimeTracker
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	core := d.Informers.Core().V1()
	c := &controller{
		controllerContext: d, services: core.Services().Lister(), pods: core.Pods().Lister(),
		endpoints: core.Endpoints().Lister(), triggers: util.NewTriggerTimeTracker(),
	}
	q := controllerruntime.NewQueue("endpoints", 5, c.syncService)
	q.WatchByKey(core.Services().Informer())
	q.Watch(core.Pods().Informer(),
		func(old, cur runtime.Object) []string { return endpointslice.ServicesOf(c.services, old, cur) })
	q.Watch(core.Endpoints().Informer(), keysOfEndpoints)
	return q
}

// keysOfEndpoints is the key of Endpoints that came or went, also of those that exist at the start:
// their Service may have gone while nobody watched. A change has none, as upstream's.
func keysOfEndpoints(old, cur runtime.Object) []string {
	if old != nil && cur != nil {
		return nil
	}
	if cur == nil {
		cur = old
	}
	e, ok := cur.(*corev1.Endpoints)
	if !ok {
		return nil
	}
	return []string{e.Namespace + "/" + e.Name}
}

func (c *controller) syncService(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	service, err := c.services.Services(ns).Get(name)
	if apierrors.IsNotFound(err) {
		c.triggers.DeleteService(ns, name)
		return 0, c.deleteEndpoints(ctx, ns, name)
	}
	if err != nil {
		return 0, err
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName || service.Spec.Selector == nil {
		return 0, nil
	}
	pods, err := c.pods.Pods(ns).List(labels.Set(service.Spec.Selector).AsSelectorPreValidated())
	if err != nil {
		return 0, err
	}
	have, err := c.endpoints.Endpoints(ns).Get(name)
	if apierrors.IsNotFound(err) {
		have = nil
	} else if err != nil {
		return 0, err
	}
	want := DesiredEndpoints(service, pods, have)
	trigger := c.triggers.ComputeEndpointLastChangeTriggerTime(ns, service, pods)
	if have != nil && equality.Semantic.DeepEqual(have, want) {
		return 0, nil
	}
	if !trigger.IsZero() {
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, corev1.EndpointsLastChangeTriggerTime,
			trigger.UTC().Format(time.RFC3339Nano))
	} else {
		delete(want.Annotations, corev1.EndpointsLastChangeTriggerTime)
	}
	client := c.controllerContext.Client.CoreV1().Endpoints(ns)
	if have == nil {
		_, err = client.Create(ctx, want, metav1.CreateOptions{})
	} else {
		_, err = client.Update(ctx, want, metav1.UpdateOptions{})
	}
	switch {
	case err == nil, apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return 0, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return 0, err // the cache is behind our own last write: no event
	case have == nil:
		c.controllerContext.Recorder.Eventf(service, corev1.EventTypeWarning, "FailedToCreateEndpoint",
			"Failed to create endpoint for service %v/%v: %v", ns, name, err)
	default:
		c.controllerContext.Recorder.Eventf(want, corev1.EventTypeWarning, "FailedToUpdateEndpoint",
			"Failed to update endpoint %v/%v: %v", ns, name, err)
	}
	return 0, err
}

// deleteEndpoints deletes this controller's Endpoints of a deleted Service; those of others stay.
func (c *controller) deleteEndpoints(ctx context.Context, ns, name string) error {
	e, err := c.endpoints.Endpoints(ns).Get(name)
	if err != nil {
		return controllerruntime.IgnoreNotFound(err)
	}
	if e.Labels[managedBy] != manager {
		return nil
	}
	return controllerruntime.IgnoreNotFound(c.controllerContext.Client.CoreV1().Endpoints(ns).Delete(ctx, name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(e.UID))}))
}
