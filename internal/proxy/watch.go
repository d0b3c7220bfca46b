package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// proxiedSelector excludes Services of other proxies, and headless ones, which have no cluster IP.
const proxiedSelector = "!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name"

// byServiceIndex is the EndpointSlice index by Service (NAMESPACE/NAME).
const byServiceIndex = "service"

// lastChangeTriggerTime is the annotation with the time of the change that an EndpointSlice
// reflects.
const lastChangeTriggerTime = "endpoints.kubernetes.io/last-change-trigger-time"

// objectCaches are the informers of watched objects.
type objectCaches struct{ services, slices, nodes cache.SharedIndexInformer }

// watch starts informers for Services, EndpointSlices and this Node, connects them to the change
// tracker, and returns when the first lists have arrived or with ctx's error.
func (p *Proxier) watch(ctx context.Context) error {
	small := newTrimmer().transform
	shared := informers.NewSharedInformerFactoryWithOptions(p.o.Client, 0, informers.WithTransform(small),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = proxiedSelector }))
	own := informers.NewSharedInformerFactoryWithOptions(p.o.Client, 0, informers.WithTransform(small),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", p.o.Node).String()
		}))
	p.caches = objectCaches{shared.Core().V1().Services().Informer(),
		shared.Discovery().V1().EndpointSlices().Informer(), own.Core().V1().Nodes().Informer()}
	index := cache.Indexers{byServiceIndex: func(o any) ([]string, error) { return []string{serviceOf(o)}, nil }}
	if err := p.caches.slices.AddIndexers(index); err != nil {
		return err
	}
	var synced []cache.InformerSynced
	var errs []error
	follow := func(i cache.SharedIndexInformer, notify func(any)) {
		r, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: notify,
			UpdateFunc: func(_, now any) { notify(now) }, DeleteFunc: func(o any) { notify(unwrapTombstone(o)) }})
		errs = append(errs, err)
		if err == nil {
			synced = append(synced, r.HasSynced)
		}
	}
	follow(p.caches.services,
		func(o any) { p.metrics.serviceChanges.Inc(); p.onServiceChange(services, keyOf(o), time.Time{}) })
	follow(p.caches.slices, func(o any) {
		p.metrics.endpointChanges.Inc()
		p.onServiceChange(endpointSlices, serviceOf(o), triggerTimeOf(o))
	})
	follow(p.caches.nodes, func(any) { p.changes.updateAll() })
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	if p.o.ResyncPeriod > 0 {
		go wait.UntilWithContext(ctx, func(context.Context) { p.changes.updateAll() }, p.o.ResyncPeriod)
	}
	shared.Start(ctx.Done())
	own.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return ctx.Err()
	}
	return nil
}

// unwrapTombstone returns the deleted object, also from a DeletedFinalStateUnknown.
func unwrapTombstone(o any) any {
	if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
		return t.Obj
	}
	return o
}

func keyOf(o any) string {
	key, err := cache.MetaNamespaceKeyFunc(o)
	if err != nil {
		return ""
	}
	return key
}

func serviceOf(o any) string {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok || s.Labels[discoveryv1.LabelServiceName] == "" {
		return ""
	}
	return s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]
}

func triggerTimeOf(o any) time.Time {
	if s, ok := o.(*discoveryv1.EndpointSlice); ok {
		if t, err := time.Parse(time.RFC3339Nano, s.Annotations[lastChangeTriggerTime]); err == nil {
			return t
		}
	}
	return time.Time{}
}

// service returns the cached Service and its EndpointSlices; nil if there is no such Service.
func (v objectCaches) service(key string) (*v1.Service, []*discoveryv1.EndpointSlice) {
	o, there, err := v.services.GetStore().GetByKey(key)
	if err != nil || !there {
		return nil, nil
	}
	s, ok := o.(*v1.Service)
	if !ok {
		return nil, nil
	}
	found, err := v.slices.GetIndexer().ByIndex(byServiceIndex, key)
	if err != nil {
		return s, nil
	}
	var slices []*discoveryv1.EndpointSlice
	for _, o := range found {
		if slice, ok := o.(*discoveryv1.EndpointSlice); ok {
			slices = append(slices, slice)
		}
	}
	return s, slices
}

func (v objectCaches) node(name string) *v1.Node {
	o, there, err := v.nodes.GetStore().GetByKey(name)
	if err != nil || !there {
		return nil
	}
	n, _ := o.(*v1.Node)
	return n
}
