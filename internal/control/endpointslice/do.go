// Package endpointslice lists the Pods of each Service in EndpointSlices: their addresses, and
// whether they are ready, serving, terminating.
//
// In: Services with a selector, Pods, nodes. Out: slices, computed by upstream's reconciler
// (k8s.io/endpointslice).
package endpointslice

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	library "k8s.io/endpointslice"
	"k8s.io/endpointslice/metrics"
	"k8s.io/endpointslice/topologycache"
	"k8s.io/endpointslice/util"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/node"
)

const (
	// manager is the managed-by label of this controller's slices.
	manager = "endpointslice-controller.k8s.io"
	// perSlice bounds the endpoints of a slice, as upstream's default.
	perSlice = 100
)

var errCacheOutdated = errors.New("the cache of EndpointSlices is behind the controller's own writes")

type controller struct {
	controllerContext controllerruntime.ControllerContext
	services          corelisters.ServiceLister
	pods              corelisters.PodLister
	nodes             corelisters.NodeLister
	slices            discoverylisters.EndpointSliceLister
	tracker           *util.EndpointSliceTracker
	triggers          *util.TriggerTimeTracker
	topology          *topologycache.TopologyCache
	reconciler        *library.Reconciler
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	core, slices := d.Informers.Core().V1(), d.Informers.Discovery().V1().EndpointSlices()
	c := &controller{
		controllerContext: d, services: core.Services().Lister(), pods: core.Pods().Lister(),
		nodes: core.Nodes().Lister(), slices: slices.Lister(),
		tracker: util.NewEndpointSliceTracker(), triggers: util.NewTriggerTimeTracker(),
		topology: topologycache.NewTopologyCache(),
	}
	metrics.RegisterMetrics() // metrics of the reconciler
	c.reconciler = library.NewReconciler(d.Client, c.nodes, perSlice, c.tracker, c.topology, d.Recorder, manager,
		library.WithPreferSameTrafficDistributionEnabled(true))
	q := controllerruntime.NewQueue("endpointslice", 5, c.syncService)
	q.WatchByKey(core.Services().Informer())
	q.Watch(core.Pods().Informer(), func(old, cur runtime.Object) []string { return ServicesOf(c.services, old, cur) })
	q.Watch(slices.Informer(), c.sliceChanged)
	q.Watch(core.Nodes().Informer(), c.nodeChanged)
	return q
}

// ServicesOf returns the keys of the Services whose endpoints a change of a Pod may affect.
func ServicesOf(services corelisters.ServiceLister, old, cur runtime.Object) []string {
	var o, p any // untyped nil, as the library requires
	if pod, ok := old.(*corev1.Pod); ok {
		o = pod
	}
	if pod, ok := cur.(*corev1.Pod); ok {
		p = pod
	}
	keys, err := util.GetServicesToUpdate(services, util.GetPodUpdateProjectionKey(o, p))
	if err != nil {
		return nil
	}
	return keys.UnsortedList()
}

// sliceChanged returns the Service of a slice that somebody else wrote or deleted.
func (c *controller) sliceChanged(old, cur runtime.Object) []string {
	was, _ := old.(*discoveryv1.EndpointSlice)
	is, _ := cur.(*discoveryv1.EndpointSlice)
	switch {
	case is == nil:
		// The tracker distinguishes our own deletions from others'.
		if was == nil || !managed(was) || !c.tracker.Has(was) || c.tracker.HandleDeletion(was) {
			return nil
		}
		return serviceOf(was)
	case was == nil:
		if managed(is) && c.tracker.ShouldSync(is) {
			return serviceOf(is)
		}
		return nil
	case managed(was) != managed(is) ||
		was.Labels[discoveryv1.LabelServiceName] != is.Labels[discoveryv1.LabelServiceName]:
		return append(serviceOf(was), serviceOf(is)...)
	case managed(is) && c.tracker.ShouldSync(is):
		return serviceOf(is)
	}
	return nil
}

func managed(s *discoveryv1.EndpointSlice) bool {
	return s.Labels[discoveryv1.LabelManagedBy] == manager
}

func serviceOf(s *discoveryv1.EndpointSlice) []string {
	key, err := library.ServiceControllerKey(s)
	if err != nil {
		return nil
	}
	return []string{key}
}

// nodeChanged updates topology hints and returns the Services whose hints no longer fit.
func (c *controller) nodeChanged(old, cur runtime.Object) []string {
	was, _ := old.(*corev1.Node)
	is, _ := cur.(*corev1.Node)
	if was != nil && is != nil && topologyOf(was) == topologyOf(is) {
		return nil
	}
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return nil
	}
	c.topology.SetNodes(klog.Background(), nodes)
	return c.topology.GetOverloadedServices()
}

func topologyOf(n *corev1.Node) string {
	return fmt.Sprint(n.Labels[corev1.LabelTopologyZone], node.IsReady(n), n.Status.Allocatable.Cpu())
}

func (c *controller) syncService(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	service, err := c.services.Services(ns).Get(name)
	if apierrors.IsNotFound(err) {
		c.triggers.DeleteService(ns, name)
		c.tracker.DeleteService(ns, name)
		return 0, nil // the slices are garbage collected with their owner
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
	mine := labels.Set{discoveryv1.LabelServiceName: name, discoveryv1.LabelManagedBy: manager}
	found, err := c.slices.EndpointSlices(ns).List(mine.AsSelectorPreValidated())
	if err != nil {
		return 0, err
	}
	var slices []*discoveryv1.EndpointSlice
	for _, s := range found {
		if s.DeletionTimestamp == nil {
			slices = append(slices, s)
		}
	}
	if c.tracker.StaleSlices(service, slices) {
		return 0, errCacheOutdated
	}
	usable := ServablePods(pods)
	trigger := c.triggers.ComputeEndpointLastChangeTriggerTime(ns, service, usable)
	if err := c.reconciler.Reconcile(klog.FromContext(ctx), service, usable, slices, trigger); err != nil {
		c.controllerContext.Recorder.Eventf(service, corev1.EventTypeWarning, "FailedToUpdateEndpointSlices",
			"Error updating Endpoint Slices for Service %s/%s: %v", ns, name, err)
		return 0, err
	}
	return 0, nil
}
