// Package servicelb assigns nodes' addresses to Services of type LoadBalancer, where there is no
// cloud provider.
//
// The proxy on each node handles traffic to such an address and the Service's port. If Services
// want the same port the oldest gets it, as all share the nodes' addresses. A Service with
// loadBalancerClass is left to others. In: Services, nodes, EndpointSlices, Pods with host ports.
// Out: status.loadBalancer, events with upstream's reasons.
package servicelb

import (
	"context"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/node"
)

type controller struct {
	controllerContext controllerruntime.ControllerContext
	services          corelisters.ServiceLister
	nodes             corelisters.NodeLister
	pods              corelisters.PodLister
	slices            discoverylisters.EndpointSliceLister
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	core, slices := d.Informers.Core().V1(), d.Informers.Discovery().V1().EndpointSlices()
	c := &controller{d, core.Services().Lister(), core.Nodes().Lister(), core.Pods().Lister(), slices.Lister()}
	q := controllerruntime.NewQueue("servicelb", 1, c.syncService)
	q.Watch(core.Services().Informer(), c.serviceChanged)
	q.Watch(core.Nodes().Informer(), c.nodeChanged)
	q.Watch(core.Pods().Informer(), c.podChanged)
	q.Watch(slices.Informer(), c.sliceChanged)
	return q
}

// allServices returns the keys of the Services that this controller handles.
func (c *controller) allServices() []string {
	list, err := c.services.List(labels.Everything())
	if err != nil {
		return nil
	}
	var out []string
	for _, s := range list {
		if HandlesService(s) {
			out = append(out, s.Namespace+"/"+s.Name)
		}
	}
	return out
}

// serviceChanged returns all load balancers if one changed, since others may wait for its ports,
// and a Service that is no longer one but has addresses.
func (c *controller) serviceChanged(old, cur runtime.Object) []string {
	was, _ := old.(*corev1.Service)
	is, _ := cur.(*corev1.Service)
	if (was == nil || !HandlesService(was)) && (is == nil || !HandlesService(is)) {
		if is != nil && len(is.Status.LoadBalancer.Ingress) > 0 {
			return []string{is.Namespace + "/" + is.Name}
		}
		return nil
	}
	if was != nil && is != nil && equality.Semantic.DeepEqual(was.Spec, is.Spec) && equality.Semantic.DeepEqual(
		was.Status, is.Status) {
		return nil
	}
	keys := c.allServices()
	if is != nil && !HandlesService(is) {
		keys = append(keys, is.Namespace+"/"+is.Name)
	}
	return keys
}

// relevantFields returns the fields of a node that matter.
func relevantFields(o runtime.Object) any {
	n, ok := o.(*corev1.Node)
	if !ok {
		return nil
	}
	return []any{NodeEligible(n), node.IsReady(n), n.Status.Addresses, n.Status.DaemonEndpoints}
}

func (c *controller) nodeChanged(old, cur runtime.Object) []string {
	if reflect.DeepEqual(relevantFields(old), relevantFields(cur)) {
		return nil
	}
	return c.allServices()
}

// podChanged returns all load balancers if a Pod gets or loses host ports on a node.
func (c *controller) podChanged(old, cur runtime.Object) []string {
	was, is := nodePortsOf(old), nodePortsOf(cur)
	if was == is {
		return nil
	}
	return c.allServices()
}

// nodePortsOf returns the node on which a Pod has host ports, empty if it has none.
func nodePortsOf(o runtime.Object) string {
	if p, ok := o.(*corev1.Pod); ok && HasPort(p, 0, "") {
		return p.Spec.NodeName
	}
	return ""
}

func (c *controller) sliceChanged(old, cur runtime.Object) []string {
	o := cur
	if o == nil {
		o = old
	}
	slice, ok := o.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil
	}
	s, err := c.services.Services(slice.Namespace).Get(slice.Labels[discoveryv1.LabelServiceName])
	if err != nil || !HandlesService(s) || s.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return nil
	}
	return []string{s.Namespace + "/" + s.Name}
}

func (c *controller) syncService(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	s, err := c.services.Services(ns).Get(name)
	if apierrors.IsNotFound(err) || err == nil && s.DeletionTimestamp != nil {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	w, err := c.readInput(s)
	if err != nil {
		return 0, err
	}
	if !HandlesService(s) {
		return 0, c.clearStatus(ctx, s)
	}
	want, why := Ingress(s, w)
	have := s.Status.LoadBalancer.Ingress
	say := func(kind, reason, format string, args ...any) {
		c.controllerContext.Recorder.Eventf(s, kind, reason, format, args...)
	}
	if why != "" {
		say(corev1.EventTypeWarning, "SyncLoadBalancerFailed",
			"Error syncing load balancer: failed to ensure load balancer: %s", why)
	}
	if equality.Semantic.DeepEqual(have, want) || len(have)+len(want) == 0 {
		return 0, nil
	}
	if len(have) == 0 {
		say(corev1.EventTypeNormal, "EnsuringLoadBalancer", "Ensuring load balancer")
	}
	if err := c.write(ctx, s, want); err != nil {
		return 0, err
	}
	switch {
	case len(have) == 0:
		say(corev1.EventTypeNormal, "EnsuredLoadBalancer", "Ensured load balancer")
	case len(want) > 0:
		say(corev1.EventTypeNormal, "UpdatedLoadBalancer", "Updated load balancer with new hosts")
	}
	return 0, nil
}

// clearStatus removes nodes' addresses from a Service that is no longer a load balancer; addresses
// set by others stay.
func (c *controller) clearStatus(ctx context.Context, s *corev1.Service) error {
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) == 0 {
		return nil
	}
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	own := map[string]bool{}
	for _, n := range nodes {
		for _, ip := range addresses(n, nil) {
			own[ip.String()] = true
		}
	}
	for _, in := range s.Status.LoadBalancer.Ingress {
		if !own[in.IP] {
			return nil
		}
	}
	c.controllerContext.Recorder.Event(s, corev1.EventTypeNormal, "DeletingLoadBalancer", "Deleting load balancer")
	if err := c.write(ctx, s, nil); err != nil {
		return err
	}
	c.controllerContext.Recorder.Event(s, corev1.EventTypeNormal, "DeletedLoadBalancer", "Deleted load balancer")
	return nil
}

func (c *controller) write(ctx context.Context, s *corev1.Service, ingress []corev1.LoadBalancerIngress) error {
	s = s.DeepCopy()
	s.Status.LoadBalancer.Ingress = ingress
	_, err := c.controllerContext.Client.CoreV1().Services(s.Namespace).UpdateStatus(ctx, s, metav1.UpdateOptions{})
	if err := controllerruntime.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("status of Service %s/%s: %w", s.Namespace, s.Name, err)
	}
	return nil
}

func (c *controller) readInput(s *corev1.Service) (w Input, err error) {
	if w.Services, err = c.services.List(labels.Everything()); err != nil {
		return w, err
	}
	if w.Nodes, err = c.nodes.List(labels.Everything()); err != nil {
		return w, err
	}
	pods, err := c.pods.List(labels.Everything())
	if err != nil {
		return w, err
	}
	for _, p := range pods {
		if nodePortsOf(p) != "" {
			w.Pods = append(w.Pods, p)
		}
	}
	w.Slices, err = c.slices.EndpointSlices(s.Namespace).List(
		labels.Set{discoveryv1.LabelServiceName: s.Name}.AsSelector())
	if err != nil {
		return w, err
	}
	api, err := c.slices.EndpointSlices(sharedIPDefault).List(
		labels.Set{discoveryv1.LabelServiceName: "kubernetes"}.AsSelector())
	w.Slices = append(w.Slices, api...)
	return w, err
}
