// Package endpointslicemirroring mirrors manually written Endpoints, of Services without a
// selector, in EndpointSlices.
//
// In: Endpoints, Services without a selector. Out: slices, events about addresses that are left
// out.
package endpointslicemirroring

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

type controller struct {
	controllerContext controllerruntime.ControllerContext
	services          corelisters.ServiceLister
	endpoints         corelisters.EndpointsLister
	slices            discoverylisters.EndpointSliceLister
	mirrored          mirrored
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	core, slices := d.Informers.Core().V1(), d.Informers.Discovery().V1().EndpointSlices()
	c := &controller{controllerContext: d, services: core.Services().Lister(), endpoints: core.Endpoints().Lister(),
		slices: slices.Lister(), mirrored: mirrored{by: map[string]Counts{}}}
	q := controllerruntime.NewQueue("slicemirror", 5, c.syncEndpoints)
	q.WatchByKey(core.Services().Informer())
	q.WatchByKey(core.Endpoints().Informer())
	q.Watch(slices.Informer(), func(old, cur runtime.Object) []string {
		s, ok := old.(*discoveryv1.EndpointSlice)
		if !ok || s.Labels[discoveryv1.LabelManagedBy] != manager {
			return nil
		}
		return []string{s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]}
	})
	return q
}

func (c *controller) syncEndpoints(ctx context.Context, key string) (time.Duration, error) {
	begin := c.controllerContext.Time()
	defer func() { syncSeconds.WithLabelValues().Observe(c.controllerContext.Time().Sub(begin).Seconds()) }()
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	mine := labels.Set{discoveryv1.LabelServiceName: name, discoveryv1.LabelManagedBy: manager}
	have, err := c.slices.EndpointSlices(ns).List(mine.AsSelectorPreValidated())
	if err != nil {
		return 0, err
	}
	service, err := c.services.Services(ns).Get(name)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	e, failed := c.endpoints.Endpoints(ns).Get(name)
	if failed != nil && !apierrors.IsNotFound(failed) {
		return 0, failed
	}
	plan, mirrors := Plan{Delete: have}, false
	if err == nil && failed == nil && service.Spec.Selector == nil &&
		service.Spec.Type != corev1.ServiceTypeExternalName && ShouldMirror(e) {
		plan, mirrors = Next(service, e, have), true
		plan.Counts.observe()
		for _, w := range plan.Warnings {
			if c.controllerContext.Recorder != nil {
				c.controllerContext.Recorder.Event(e, corev1.EventTypeWarning, w.Reason, w.Message)
			}
		}
	}
	c.mirrored.note(key, mirrors, plan.Counts)
	return 0, c.do(ctx, ns, plan)
}

func (c *controller) do(ctx context.Context, ns string, plan Plan) error {
	client := c.controllerContext.Client.DiscoveryV1().EndpointSlices(ns)
	for _, s := range plan.Create {
		if _, err := client.Create(ctx, s, metav1.CreateOptions{}); err != nil && !apierrors.HasStatusCause(err,
			corev1.NamespaceTerminatingCause) {
			return err
		} else if err == nil {
			changes.WithLabelValues("create").Inc()
		}
	}
	for _, s := range plan.Update {
		if _, err := client.Update(ctx, s, metav1.UpdateOptions{}); err != nil {
			return controllerruntime.IgnoreNotFound(err)
		}
		changes.WithLabelValues("update").Inc()
	}
	for _, s := range plan.Delete {
		if err := client.Delete(ctx, s.Name, metav1.DeleteOptions{}); controllerruntime.IgnoreNotFound(err) != nil {
			return err
		}
		changes.WithLabelValues("delete").Inc()
	}
	return nil
}
