package source

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/gantry-project/gantry/internal/simulate/usage"
)

// Usage reads what the Pods of a cluster take from its metrics API. The error is that it has none,
// or that the caller may not read it.
func Usage(ctx context.Context, c kubernetes.Interface) (usage.Figures, error) {
	client, ok := c.Discovery().RESTClient().(*rest.RESTClient)
	if !ok || client == nil {
		return nil, errors.New("the client cannot ask the metrics API")
	}
	raw, err := client.Get().AbsPath("/apis/metrics.k8s.io/v1beta1/pods").SetHeader("Accept", "application/json").
		Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var list metricsv1beta1.PodMetricsList
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	out := usage.Figures{}
	for i := range list.Items {
		addUsage(out, &list.Items[i])
	}
	return out, nil
}

// addUsage adds what the metrics API tells of one Pod.
func addUsage(to usage.Figures, p *metricsv1beta1.PodMetrics) {
	of := map[string]usage.Amounts{}
	for _, c := range p.Containers {
		of[c.Name] = usage.Amounts{CPU: c.Usage.Cpu().MilliValue(), Memory: c.Usage.Memory().Value()}
	}
	to[p.Namespace+"/"+p.Name] = of
}

// podMetrics are figures as the metrics API has them, by namespace and name. at is when they were
// read.
func podMetrics(figures usage.Figures, at time.Time) []*metricsv1beta1.PodMetrics {
	var out []*metricsv1beta1.PodMetrics
	for _, pod := range slices.Sorted(maps.Keys(figures)) {
		ns, name, _ := strings.Cut(pod, "/")
		m := &metricsv1beta1.PodMetrics{TypeMeta: metav1.TypeMeta{Kind: podMetricsKind,
			APIVersion: metricsv1beta1.SchemeGroupVersion.String()},
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Timestamp: metav1.NewTime(at)}
		for _, c := range slices.Sorted(maps.Keys(figures[pod])) {
			m.Containers = append(m.Containers, metricsv1beta1.ContainerMetrics{Name: c,
				Usage: figures[pod][c].Resources()})
		}
		out = append(out, m)
	}
	return out
}

// podMetricsKind is the kind of a Pod's figures in the metrics API.
const podMetricsKind = "PodMetrics"

// usageIn takes in the figures of an object of the metrics API; false: it is another.
func (r *fileReader) usageIn(apiVersion, kind string, raw []byte) (bool, error) {
	if apiVersion != metricsv1beta1.SchemeGroupVersion.String() {
		return false, nil
	}
	if r.usage == nil {
		r.usage = usage.Figures{}
	}
	switch kind {
	case podMetricsKind:
		var m metricsv1beta1.PodMetrics
		if err := json.Unmarshal(raw, &m); err != nil {
			return true, err
		}
		addUsage(r.usage, &m)
	case podMetricsKind + "List":
		var list metricsv1beta1.PodMetricsList
		if err := json.Unmarshal(raw, &list); err != nil {
			return true, err
		}
		for i := range list.Items {
			addUsage(r.usage, &list.Items[i])
		}
	}
	return true, nil // NodeMetrics tell nothing that is copied
}
