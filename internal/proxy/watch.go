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

// ours leaves to others what names another proxy, and headless Services, which have no address.
const ours = "!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name"

// byService is the index of slices by the Service they belong to.
const byService = "service"

// triggered is when the change happened that a slice tells of.
const triggered = "endpoints.kubernetes.io/last-change-trigger-time"

// views are the watched objects.
type views struct{ services, slices, nodes cache.SharedIndexInformer }

// watch begins to follow Services, slices and this node, and returns when the first lists are in.
func (p *Proxy) watch(ctx context.Context) error {
	small := newBare().object
	shared := informers.NewSharedInformerFactoryWithOptions(p.o.Client, 0, informers.WithTransform(small),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = ours }))
	own := informers.NewSharedInformerFactoryWithOptions(p.o.Client, 0, informers.WithTransform(small),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", p.o.Node).String()
		}))
	p.views = views{shared.Core().V1().Services().Informer(), shared.Discovery().V1().EndpointSlices().Informer(), own.Core().V1().Nodes().Informer()}
	index := cache.Indexers{byService: func(o any) ([]string, error) { return []string{serviceOf(o)}, nil }}
	if err := p.views.slices.AddIndexers(index); err != nil {
		return err
	}
	var synced []cache.InformerSynced
	var errs []error
	follow := func(i cache.SharedIndexInformer, tell func(any)) {
		r, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tell, UpdateFunc: func(_, now any) { tell(now) }, DeleteFunc: func(o any) { tell(present(o)) }})
		errs = append(errs, err)
		if err == nil {
			synced = append(synced, r.HasSynced)
		}
	}
	follow(p.views.services, func(o any) { p.meter.serviceChanges.Inc(); p.tell(services, keyOf(o), time.Time{}) })
	follow(p.views.slices, func(o any) { p.meter.endpointChanges.Inc(); p.tell(endpointSlices, serviceOf(o), triggerOf(o)) })
	follow(p.views.nodes, func(any) { p.mail.tellAll() })
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	if p.o.Resync > 0 {
		go wait.UntilWithContext(ctx, func(context.Context) { p.mail.tellAll() }, p.o.Resync)
	}
	shared.Start(ctx.Done())
	own.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return ctx.Err()
	}
	return nil
}

// present is the object of a deletion, seen or guessed.
func present(o any) any {
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

func triggerOf(o any) time.Time {
	if s, ok := o.(*discoveryv1.EndpointSlice); ok {
		if t, err := time.Parse(time.RFC3339Nano, s.Annotations[triggered]); err == nil {
			return t
		}
	}
	return time.Time{}
}

// service is the Service with its slices as seen now.
func (v views) service(key string) (*v1.Service, []*discoveryv1.EndpointSlice) {
	o, there, err := v.services.GetStore().GetByKey(key)
	if err != nil || !there {
		return nil, nil
	}
	s, ok := o.(*v1.Service)
	if !ok {
		return nil, nil
	}
	found, err := v.slices.GetIndexer().ByIndex(byService, key)
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

func (v views) node(name string) *v1.Node {
	o, there, err := v.nodes.GetStore().GetByKey(name)
	if err != nil || !there {
		return nil
	}
	n, _ := o.(*v1.Node)
	return n
}
