package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/gantry-project/gantry/internal/simulate/usage"
)

// Usage reads what the Pods of a cluster take: from its metrics API, or where it has none from the
// kubelets, as the metrics server does. The error says why neither tells.
func Usage(ctx context.Context, c kubernetes.Interface) (usage.Figures, error) {
	out, err := usageOfAPI(ctx, c)
	if err == nil {
		return out, nil
	}
	out, kubelets := usageOfKubelets(ctx, c)
	if kubelets != nil {
		return nil, fmt.Errorf("the metrics API: %w; the kubelets: %w", err, kubelets)
	}
	return out, nil
}

func usageOfAPI(ctx context.Context, c kubernetes.Interface) (usage.Figures, error) {
	client, ok := c.Discovery().RESTClient().(*rest.RESTClient)
	if !ok || client == nil {
		return nil, errors.New("the client cannot ask")
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

const (
	// mostAsked is how many kubelets are asked; Pods of the other nodes are known by their owners.
	mostAsked = 256
	// askedAtOnce is how many of them at the same time.
	askedAtOnce = 8
	// longestAnswer is how long one may take.
	longestAnswer = 3 * time.Second
	// longestAsking is how long all may take.
	longestAsking = 6 * time.Second
)

// usageOfKubelets asks the kubelets for their summaries, through the API server. One that does not
// answer is left out; the error is that none did.
func usageOfKubelets(ctx context.Context, c kubernetes.Interface) (usage.Figures, error) {
	client, ok := c.CoreV1().RESTClient().(*rest.RESTClient)
	if !ok || client == nil {
		return nil, errors.New("the client cannot ask")
	}
	nodes, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, longestAsking)
	defer cancel()
	var mu sync.Mutex
	out, answers := usage.Figures{}, 0
	var last error
	var all errgroup.Group
	all.SetLimit(askedAtOnce)
	for _, n := range nodes.Items[:min(len(nodes.Items), mostAsked)] {
		all.Go(func() error {
			one, cancel := context.WithTimeout(ctx, longestAnswer)
			defer cancel()
			raw, err := client.Get().Resource("nodes").Name(n.Name).SubResource("proxy").Suffix("stats", "summary").
				Param("only_cpu_and_memory", "true").DoRaw(one)
			var summary statsapi.Summary
			if err == nil {
				err = json.Unmarshal(raw, &summary)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				last = err
				return nil
			}
			answers++
			addSummary(out, &summary)
			return nil
		})
	}
	_ = all.Wait() // last has the errors
	if answers == 0 && last != nil {
		return nil, last
	}
	return out, nil
}

// addSummary adds what a kubelet tells of its Pods' containers.
func addSummary(to usage.Figures, s *statsapi.Summary) {
	for i := range s.Pods {
		p := &s.Pods[i]
		of := map[string]usage.Amounts{}
		for _, c := range p.Containers {
			if c.CPU == nil || c.CPU.UsageNanoCores == nil || c.Memory == nil || c.Memory.WorkingSetBytes == nil {
				continue
			}
			of[c.Name] = usage.Amounts{CPU: int64(*c.CPU.UsageNanoCores / 1e6),
				Memory: int64(*c.Memory.WorkingSetBytes)}
		}
		if len(of) > 0 {
			to[p.PodRef.Namespace+"/"+p.PodRef.Name] = of
		}
	}
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
