// Package horizontalpodautoscaler scales what HorizontalPodAutoscalers point at by metrics, as
// upstream's controller of that name: the formula with its tolerance, missing and unready Pods,
// stabilization windows, scaling policies, and scaling to zero.
//
// In: HorizontalPodAutoscalers, Pods, any kind's scale subresource, the metrics APIs, the time; a
// decision each sync period and at a change of a spec. Out: scales, statuses and events. Decide is
// the decision, a pure function; what it remembers between decisions is not stored.
package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	autoscalinglisters "k8s.io/client-go/listers/autoscaling/v2"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/metrics/pkg/client/custom_metrics"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

type controller struct {
	controllerContext controllerruntime.ControllerContext
	options           Options
	autoscalers       autoscalinglisters.HorizontalPodAutoscalerLister
	pods              corelisters.PodLister
	mapper            meta.ResettableRESTMapper
	scales            scale.ScalesGetter
	clients           Clients
	clientsErr        error // why there are none
	histories         *historyStore
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	RegisterMetrics()
	disco := d.Client.Discovery()
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	available := custom_metrics.NewAvailableAPIsGetter(disco)
	c := &controller{controllerContext: d, options: controllerruntime.DefaultHorizontalPodAutoscaling(), mapper: mapper,
		autoscalers: d.Informers.Autoscaling().V2().HorizontalPodAutoscalers().Lister(),
		pods:        d.Informers.Core().V1().Pods().Lister(), histories: newHistoryStore(),
		// the resolver keeps what it found, and asks anew for what it did not
		scales: scale.New(disco.RESTClient(), mapper, dynamic.LegacyAPIPathResolverFunc,
			scale.NewDiscoveryScaleKindResolver(disco)),
	}
	if o := d.HorizontalPodAutoscaling; o != nil {
		c.options = *o
	}
	c.clients, c.clientsErr = newClients(disco, mapper, available)
	q := c.queue()
	q.AddBackground(func(ctx context.Context) {
		custom_metrics.PeriodicallyInvalidate(available, c.options.SyncPeriod, ctx.Done())
	})
	return q
}

// queue returns the queue: a sync at once for an autoscaler that is new or whose spec changed, and
// each period. The controller's own writes of a status cause none.
func (c *controller) queue() *controllerruntime.Queue {
	q := controllerruntime.NewQueue("horizontalpodautoscaler", c.options.ConcurrentSyncs, c.syncAutoscaler)
	q.WaitForInformers(c.controllerContext.Informers.Core().V1().Pods().Informer())
	q.Watch(c.controllerContext.Informers.Autoscaling().V2().HorizontalPodAutoscalers().Informer(), changedSpecs)
	return q
}

func changedSpecs(old, cur runtime.Object) []string {
	was, _ := old.(*autoscalingv2.HorizontalPodAutoscaler)
	is, _ := cur.(*autoscalingv2.HorizontalPodAutoscaler)
	switch {
	case was == nil:
		autoscalers.Inc()
	case is == nil:
		autoscalers.Dec()
		desiredReplicas.DeleteLabelValues(was.Namespace, was.Name)
		is = was
	case was.UID == is.UID && was.Generation == is.Generation &&
		(is.Generation != 0 || equality.Semantic.DeepEqual(was.Spec, is.Spec)): // v1.36 counts none
		return nil
	}
	key, err := cache.MetaNamespaceKeyFunc(is)
	if err != nil {
		return nil
	}
	return []string{key}
}

// errStale asks for another try: the cache lacks the controller's own last write.
var errStale = errors.New("the cache lacks the status that was written last")

func (c *controller) syncAutoscaler(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	h, err := c.autoscalers.HorizontalPodAutoscalers(ns).Get(name)
	if err != nil {
		c.histories.forget(key)
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	if c.histories.isStale(key, h) {
		staleSkips.WithLabelValues(autoscalingv2.GroupName, "horizontalpodautoscalers").Inc()
		return 0, errStale
	}
	start := time.Now()
	o := c.decide(ctx, key, h)
	if err := c.writeStatus(ctx, key, h, o.Status); err != nil {
		o.Err, o.ErrorLabel = errors.Join(o.Err, err), errorInternal
	}
	o.count(h, time.Since(start))
	if o.Err != nil {
		// The next period is the next try, as with upstream: what failed is rarely well sooner.
		klog.FromContext(ctx).V(2).Info("Sync failed, will be tried again", "controller", "horizontalpodautoscaler",
			"key", key, "err", o.Err)
	}
	return c.options.SyncPeriod, nil
}

// decide decides about h, writes the scale and the events, and remembers the history.
func (c *controller) decide(ctx context.Context, key string, h *autoscalingv2.HorizontalPodAutoscaler) Outcome {
	in := In{HPA: h, Options: c.options, History: c.histories.history(key), Now: c.controllerContext.Time()}
	var resource schema.GroupResource
	in.Scale, resource, in.ScaleErr = c.scale(ctx, h)
	took := make([]time.Duration, len(h.Spec.Metrics))
	if in.ScaleErr == nil {
		c.gather(ctx, key, &in, took)
	}
	plan := Decide(in)
	for i, m := range plan.Computations {
		m.count(took[i])
	}
	var written error
	if plan.Rescale {
		written = c.rescale(ctx, h, target{resource, in.Scale, plan.Desired})
	}
	o := plan.Outcome(written)
	for _, e := range o.Events {
		c.controllerContext.Recorder.Event(h, e.Type, e.Reason, e.Message)
	}
	c.histories.recordHistory(key, o.History)
	return o
}

// gather adds the Pods, who else selects them, and the figures if they are needed.
func (c *controller) gather(ctx context.Context, key string, in *In, took []time.Duration) {
	selector, err := in.selector()
	if err != nil || in.Scale.Status.Selector == "" || !in.metricsDecide() {
		return
	}
	pods, err := c.pods.Pods(in.HPA.Namespace).List(selector)
	if err != nil {
		return // a lister of a cache returns none
	}
	in.Pods = pods
	in.SelectedBy = c.histories.selecting(key, selector, pods)
	if !in.NeedsFigures() {
		return
	}
	if c.clientsErr != nil {
		in.MetricValues = make([]MetricValue, len(in.HPA.Spec.Metrics))
		for i := range in.MetricValues {
			in.MetricValues[i].Err = c.clientsErr
		}
		return
	}
	in.MetricValues = c.clients.MetricValues(ctx, in.HPA, selector, func(i int, d time.Duration) { took[i] = d })
}

// scale reads the target's scale subresource under the first resource of its kind that has one.
func (c *controller) scale(ctx context.Context, h *autoscalingv2.HorizontalPodAutoscaler) (*autoscalingv1.Scale,
	schema.GroupResource, error) {
	ref := &h.Spec.ScaleTargetRef
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, schema.GroupResource{}, fmt.Errorf("%w%w", err, errInSpec)
	}
	kind := schema.GroupKind{Group: gv.Group, Kind: ref.Kind}
	mappings, err := c.mapper.RESTMappings(kind)
	if meta.IsNoMatchError(err) {
		c.mapper.Reset() // the kind may have been added since
		mappings, err = c.mapper.RESTMappings(kind)
	}
	if err != nil {
		return nil, schema.GroupResource{}, err
	}
	var first error
	for _, m := range mappings {
		resource := m.Resource.GroupResource()
		got, err := c.scales.Scales(h.Namespace).Get(ctx, resource, ref.Name, metav1.GetOptions{})
		if err == nil {
			return got, resource, nil
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		first = errors.New("unrecognized resource")
	}
	return nil, schema.GroupResource{}, first
}

// target is a scale to be written.
type target struct {
	resource schema.GroupResource
	scale    *autoscalingv1.Scale
	replicas int32
}

// rescale writes the scale. After a conflict it reads it again and writes the same count.
func (c *controller) rescale(ctx context.Context, h *autoscalingv2.HorizontalPodAutoscaler, t target) error {
	scales, next := c.scales.Scales(h.Namespace), t.scale.DeepCopy()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		next.Spec.Replicas = t.replicas
		_, err := scales.Update(ctx, t.resource, next, metav1.UpdateOptions{})
		if err == nil {
			return nil
		}
		if latest, err := scales.Get(ctx, t.resource, t.scale.Name, metav1.GetOptions{}); err == nil {
			next = latest
		}
		return err
	})
}

func (c *controller) writeStatus(ctx context.Context, key string, h *autoscalingv2.HorizontalPodAutoscaler,
	s autoscalingv2.HorizontalPodAutoscalerStatus) error {
	if equality.Semantic.DeepEqual(h.Status, s) {
		return nil
	}
	next := h.DeepCopy()
	next.Status = s
	got, err := c.controllerContext.Client.AutoscalingV2().HorizontalPodAutoscalers(h.Namespace).UpdateStatus(ctx, next,
		metav1.UpdateOptions{})
	if err != nil {
		c.controllerContext.Recorder.Event(h, corev1.EventTypeWarning, "FailedUpdateStatus", err.Error())
		return fmt.Errorf("failed to update status for %s: %w", h.Name, err)
	}
	c.histories.recordStatus(key, got)
	return nil
}
