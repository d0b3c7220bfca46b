package dns

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/dns/plan"
)

// writeTimeout bounds one sync of the Service and the EndpointSlice.
const writeTimeout = 10 * time.Second

// runSync follows the ConfigMap, the node's resolver file and the link's address, and maintains the
// Service and the EndpointSlice, until ctx ends.
func (s *Server) runSync(ctx context.Context) error {
	wakeup := make(chan struct{}, 1) // capacity 1: several signals become one sync
	tell := func(any) {
		select {
		case wakeup <- struct{}{}:
		default:
		}
	}
	maps, err := s.watchObject(ctx, plan.ConfigMapName,
		func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
			return f.Core().V1().ConfigMaps().Informer()
		}, tell)
	if err != nil {
		return err
	}
	if s.o.Publish {
		if _, err := s.watchObject(ctx, plan.ServiceName,
			func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
				return f.Core().V1().Services().Informer()
			}, tell); err != nil {
			return err
		}
		if _, err := s.watchObject(ctx, plan.SliceName(s.o.Node),
			func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
				return f.Discovery().V1().EndpointSlices().Informer()
			}, tell); err != nil {
			return err
		}
	}
	tell(nil)
	again := time.NewTicker(resyncPeriod)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wakeup:
		case <-again.C:
		}
		s.reconcile(ctx, maps)
	}
}

func (s *Server) reconcile(ctx context.Context, maps cache.Store) {
	s.data = nil
	if o, there, err := maps.GetByKey(metav1.NamespaceSystem + "/" + plan.ConfigMapName); err == nil && there {
		if m, ok := o.(*v1.ConfigMap); ok {
			s.data = m.Data
		}
	}
	log := klog.FromContext(ctx)
	if err := s.applySettings(); err != nil {
		log.Error(err, "DNS settings could not be taken over; the former ones stay in force")
	}
	if l := s.o.Listen; l.Link != "" {
		if err := addAddress(l.Link, l.Cluster); err != nil {
			log.Error(err, "Pods do not reach the DNS server by its address on the node")
		}
	}
	if !s.o.Publish {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := s.publish(ctx); err != nil && ctx.Err() == nil {
		log.Error(err, "The DNS server could not be published; the next try is in ten seconds",
			"service", "kube-system/"+plan.ServiceName)
	}
}

// watchObject watches one object by name.
func (s *Server) watchObject(ctx context.Context, name string,
	of func(informers.SharedInformerFactory) cache.SharedIndexInformer, tell func(any)) (cache.Store, error) {
	f := informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithNamespace(metav1.NamespaceSystem),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
		}))
	i := of(f)
	if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tell,
		UpdateFunc: func(_, now any) { tell(now) }, DeleteFunc: tell}); err != nil {
		return nil, fmt.Errorf("dns: %w", err)
	}
	f.Start(ctx.Done())
	return i.GetStore(), nil
}

// publish writes the EndpointSlice and then the Service, so that the Service never lacks an
// endpoint, and only what differs.
func (s *Server) publish(ctx context.Context) error {
	services, at := s.client.CoreV1().Services(metav1.NamespaceSystem), s.o.Listen.Cluster
	have, err := services.Get(ctx, plan.ServiceName, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return err
	}
	if !missing {
		if why := plan.Conflict(have, at); why != "" {
			klog.FromContext(ctx).V(2).Info("The Service of another DNS is left as it is",
				"service", "kube-system/"+plan.ServiceName, "why", why)
			return nil
		}
	}
	if err := s.publishSlice(ctx); err != nil {
		return fmt.Errorf("EndpointSlice %s: %w", plan.SliceName(s.o.Node), err)
	}
	if missing {
		_, err = services.Create(ctx, plan.Service(at), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil // another server created it
		}
	} else if more := plan.WithDefaults(have); more != nil {
		_, err = services.Update(ctx, more, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) || apierrors.IsForbidden(err) {
			return nil // the next sync sees the change; a node without permission leaves it to others
		}
	}
	if err != nil {
		return fmt.Errorf("service %s at %s: %w", plan.ServiceName, at, err)
	}
	return nil
}

// withdrawTimeout bounds the deletion at the end, in case the API server is down.
const withdrawTimeout = 2 * time.Second

// withdraw deletes the EndpointSlice; ctx may have ended.
func (s *Server) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	name := plan.SliceName(s.o.Node)
	if err := s.client.DiscoveryV1().EndpointSlices(metav1.NamespaceSystem).Delete(ctx, name,
		metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Info("The DNS server's EndpointSlice stays: Pods of this node ask in vain until it is "+
			"back", "slice", name, "err", err)
	}
}

func (s *Server) publishSlice(ctx context.Context) error {
	want := plan.Server{Node: s.o.Node, At: s.at, Metrics: s.metricsPort()}
	node, err := s.client.CoreV1().Nodes().Get(ctx, s.o.Node, metav1.GetOptions{})
	if err == nil {
		want.NodeUID = node.UID
	} else if !apierrors.IsNotFound(err) {
		return err
	}
	slices, slice := s.client.DiscoveryV1().EndpointSlices(metav1.NamespaceSystem), plan.Slice(want)
	have, err := slices.Get(ctx, slice.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = slices.Create(ctx, slice, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	if have.AddressType != slice.AddressType { // the address type is immutable
		return slices.Delete(ctx, slice.Name, metav1.DeleteOptions{})
	}
	if equality.Semantic.DeepEqual(have.Endpoints, slice.Endpoints) && equality.Semantic.DeepEqual(have.Ports,
		slice.Ports) &&
		equality.Semantic.DeepEqual(have.OwnerReferences, slice.OwnerReferences) && equality.Semantic.DeepEqual(
		have.Labels, slice.Labels) {
		return nil
	}
	slice.ResourceVersion = have.ResourceVersion
	_, err = slices.Update(ctx, slice, metav1.UpdateOptions{})
	return err
}
