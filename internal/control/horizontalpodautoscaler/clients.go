package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsscheme "k8s.io/metrics/pkg/client/clientset/versioned/scheme"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/custom_metrics"
	customscheme "k8s.io/metrics/pkg/client/custom_metrics/scheme"
	"k8s.io/metrics/pkg/client/external_metrics"
)

// Clients ask the metrics APIs: metrics.k8s.io, custom.metrics.k8s.io and external.metrics.k8s.io.
type Clients struct {
	Resource resourceclient.PodMetricsesGetter
	Custom   custom_metrics.CustomMetricsClient
	External external_metrics.ExternalMetricsClient
}

// newClients returns clients that ask the server of d. available says which version of
// custom.metrics.k8s.io it prefers.
func newClients(d discovery.DiscoveryInterface, mapper meta.RESTMapper,
	available custom_metrics.AvailableAPIsGetter) (Clients, error) {
	base, ok := d.RESTClient().(*rest.RESTClient)
	if !ok || base == nil {
		return Clients{}, errors.New("the client of the API server cannot ask the metrics APIs")
	}
	resources, err := clientOf(base, metricsv1beta1.SchemeGroupVersion, metricsscheme.Codecs.WithoutConversion())
	if err != nil {
		return Clients{}, err
	}
	external, err := clientOf(base, externalv1beta1.SchemeGroupVersion, metricsscheme.Codecs.WithoutConversion())
	if err != nil {
		return Clients{}, err
	}
	return Clients{Resource: resourceclient.New(resources), External: external_metrics.New(external),
		Custom: &customClient{available: available,
			byVersion: map[schema.GroupVersion]custom_metrics.CustomMetricsClient{},
			make: func(v schema.GroupVersion) (custom_metrics.CustomMetricsClient, error) {
				c, err := clientOf(base, v, customscheme.Codecs.WithoutConversion())
				return custom_metrics.NewForVersion(c, mapper, v), err
			}}}, nil
}

// clientOf returns a client of one group version over the connection of base.
func clientOf(base *rest.RESTClient, v schema.GroupVersion,
	codecs runtime.NegotiatedSerializer) (rest.Interface, error) {
	at := base.Get().URL()
	return rest.NewRESTClient(&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}, "/apis/"+v.String(),
		rest.ClientContentConfig{ContentType: runtime.ContentTypeJSON, GroupVersion: v,
			Negotiator: runtime.NewClientNegotiator(codecs, v)}, base.GetRateLimiter(), base.Client)
}

// customClient asks the preferred version of custom.metrics.k8s.io.
type customClient struct {
	available custom_metrics.AvailableAPIsGetter
	make      func(schema.GroupVersion) (custom_metrics.CustomMetricsClient, error)

	mu        sync.Mutex
	byVersion map[schema.GroupVersion]custom_metrics.CustomMetricsClient
}

// RootScopedMetrics implements custom_metrics.CustomMetricsClient.
func (c *customClient) RootScopedMetrics() custom_metrics.MetricsInterface {
	return preferred{func() (custom_metrics.MetricsInterface, error) {
		client, err := c.client()
		if err != nil {
			return nil, err
		}
		return client.RootScopedMetrics(), nil
	}}
}

// NamespacedMetrics implements custom_metrics.CustomMetricsClient.
func (c *customClient) NamespacedMetrics(namespace string) custom_metrics.MetricsInterface {
	return preferred{func() (custom_metrics.MetricsInterface, error) {
		client, err := c.client()
		if err != nil {
			return nil, err
		}
		return client.NamespacedMetrics(namespace), nil
	}}
}

func (c *customClient) client() (custom_metrics.CustomMetricsClient, error) {
	v, err := c.available.PreferredVersion()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byVersion[v] == nil {
		client, err := c.make(v)
		if err != nil {
			return nil, err
		}
		c.byVersion[v] = client
	}
	return c.byVersion[v], nil
}

// preferred asks a client that may not be there.
type preferred struct {
	client func() (custom_metrics.MetricsInterface, error)
}

// GetForObject implements custom_metrics.MetricsInterface.
func (p preferred) GetForObject(kind schema.GroupKind, name, metric string,
	selector labels.Selector) (*customv1beta2.MetricValue, error) {
	c, err := p.client()
	if err != nil {
		return nil, err
	}
	return c.GetForObject(kind, name, metric, selector)
}

// GetForObjects implements custom_metrics.MetricsInterface.
func (p preferred) GetForObjects(kind schema.GroupKind, objects labels.Selector, metric string,
	selector labels.Selector) (*customv1beta2.MetricValueList, error) {
	c, err := p.client()
	if err != nil {
		return nil, err
	}
	return c.GetForObjects(kind, objects, metric, selector)
}

// MetricValues asks for every metric of the spec, one after the other; observe is told how long
// each took. Errors are in the figures.
func (c Clients) MetricValues(ctx context.Context, h *autoscalingv2.HorizontalPodAutoscaler, pods labels.Selector,
	observe func(i int, took time.Duration)) []MetricValue {
	out := make([]MetricValue, len(h.Spec.Metrics))
	for i := range h.Spec.Metrics {
		start := time.Now()
		out[i] = c.metricValue(ctx, h.Namespace, &h.Spec.Metrics[i], pods)
		observe(i, time.Since(start))
	}
	return out
}

func (c Clients) metricValue(ctx context.Context, ns string, m *autoscalingv2.MetricSpec,
	pods labels.Selector) MetricValue {
	switch {
	case m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil:
		return c.resource(ctx, ns, pods, resourceMetric{name: m.Resource.Name})
	case m.Type == autoscalingv2.ContainerResourceMetricSourceType && m.ContainerResource != nil:
		return c.resource(ctx, ns, pods, resourceMetric{name: m.ContainerResource.Name,
			container: m.ContainerResource.Container})
	case m.Type == autoscalingv2.PodsMetricSourceType && m.Pods != nil:
		return c.podsMetric(ns, pods, m.Pods)
	case m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil:
		return c.object(ns, m.Object)
	case m.Type == autoscalingv2.ExternalMetricSourceType && m.External != nil:
		return c.external(ns, m.External)
	}
	return MetricValue{} // Decide says what is wrong with it
}

func (c Clients) resource(ctx context.Context, ns string, pods labels.Selector, m resourceMetric) MetricValue {
	list, err := c.Resource.PodMetricses(ns).List(ctx, metav1.ListOptions{LabelSelector: pods.String()})
	switch {
	case err != nil:
		return MetricValue{Err: fmt.Errorf("unable to fetch metrics from resource metrics API: %w", err)}
	case len(list.Items) == 0:
		return MetricValue{Err: errors.New("no metrics returned from resource metrics API")}
	}
	out := make(map[string]Sample, len(list.Items))
	for i := range list.Items {
		p := &list.Items[i]
		if value, ok := used(p, m); ok {
			out[p.Name] = Sample{value, p.Timestamp.Time, p.Window.Duration}
		}
	}
	return MetricValue{Pods: out}
}

// used is a Pod's use of a resource in thousandths, or its container's; not ok if it is not known
// of every container that counts.
func used(p *metricsv1beta1.PodMetrics, m resourceMetric) (total int64, ok bool) {
	for _, c := range p.Containers {
		if m.container != "" && c.Name != m.container {
			continue
		}
		q, known := c.Usage[m.name]
		if !known {
			return 0, false
		}
		total, ok = total+q.MilliValue(), true
	}
	return total, ok
}

// customWindow is the window of a custom metric that tells none.
const customWindow = time.Minute

func (c Clients) podsMetric(ns string, pods labels.Selector, s *autoscalingv2.PodsMetricSource) MetricValue {
	selector, err := metav1.LabelSelectorAsSelector(s.Metric.Selector)
	if err != nil {
		return MetricValue{Err: err}
	}
	list, err := c.Custom.NamespacedMetrics(ns).GetForObjects(schema.GroupKind{Kind: "Pod"}, pods, s.Metric.Name,
		selector)
	switch {
	case err != nil:
		return MetricValue{Err: fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err)}
	case len(list.Items) == 0:
		return MetricValue{Err: errors.New("no metrics returned from custom metrics API")}
	}
	out := make(map[string]Sample, len(list.Items))
	for _, m := range list.Items {
		window := customWindow
		if m.WindowSeconds != nil {
			window = time.Duration(*m.WindowSeconds) * time.Second
		}
		out[m.DescribedObject.Name] = Sample{m.Value.MilliValue(), m.Timestamp.Time, window}
	}
	return MetricValue{Pods: out}
}

func (c Clients) object(ns string, s *autoscalingv2.ObjectMetricSource) MetricValue {
	selector, err := metav1.LabelSelectorAsSelector(s.Metric.Selector)
	if err != nil {
		return MetricValue{Err: err}
	}
	kind := schema.FromAPIVersionAndKind(s.DescribedObject.APIVersion, s.DescribedObject.Kind).GroupKind()
	client, name := c.Custom.NamespacedMetrics(ns), s.DescribedObject.Name
	if kind == (schema.GroupKind{Kind: "Namespace"}) {
		client, name = c.Custom.RootScopedMetrics(), ns // its own, whatever the name says
	}
	value, err := client.GetForObject(kind, name, s.Metric.Name, selector)
	if err != nil {
		return MetricValue{Err: fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err)}
	}
	return MetricValue{Value: value.Value.MilliValue()}
}

func (c Clients) external(ns string, s *autoscalingv2.ExternalMetricSource) MetricValue {
	selector, err := metav1.LabelSelectorAsSelector(s.Metric.Selector)
	if err != nil {
		return MetricValue{Err: err}
	}
	list, err := c.External.NamespacedMetrics(ns).List(s.Metric.Name, selector)
	switch {
	case err != nil:
		return MetricValue{Err: fmt.Errorf("unable to fetch metrics from external metrics API: %w", err)}
	case len(list.Items) == 0:
		return MetricValue{Err: errors.New("no metrics returned from external metrics API")}
	}
	var out []int64
	for _, m := range list.Items {
		out = append(out, m.Value.MilliValue())
	}
	return MetricValue{Values: out}
}
