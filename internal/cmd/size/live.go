package size

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/sizing"
)

// readNode takes the size from a Node object.
func (s *sizeCommand) readNode(ctx context.Context) (*sizing.NodeSize, error) {
	client, err := s.NewClient()
	if err != nil {
		return nil, err
	}
	n, err := client.CoreV1().Nodes().Get(ctx, s.node, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	c := n.Status.Capacity
	size := sizing.NodeSize{MilliCPU: c.Cpu().MilliValue(), Memory: c.Memory().Value(),
		Disk: c.StorageEphemeral().Value()}
	if err := sizing.CheckSize(size); err != nil {
		return nil, fmt.Errorf("node %s: status.capacity.%w", s.node, err)
	}
	return &size, nil
}

// podMetrics is a PodMetricsList of the metrics API.
type podMetrics struct {
	Items []struct {
		Metadata   metav1.ObjectMeta `json:"metadata"`
		Timestamp  time.Time         `json:"timestamp"`
		Containers []struct {
			Name  string          `json:"name"`
			Usage v1.ResourceList `json:"usage"`
		} `json:"containers"`
	} `json:"items"`
}

// measure takes usage from the metrics API for a while, and from Pods what they request.
func (s *sizeCommand) measure(ctx context.Context, into sizing.Series) error {
	named := s.Namespace != ""
	client, err := s.NewClient()
	if err != nil {
		return err
	}
	namespace := ""
	if named {
		namespace = s.Namespace
	}
	m := metricsReader{client, namespace, map[string]time.Time{}}
	if err := m.take(ctx, into); err != nil {
		return err
	}
	end, tick := time.NewTimer(s.period), time.NewTicker(s.every)
	defer end.Stop()
	defer tick.Stop()
	for done := s.period == 0; !done; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			done = true
		case <-tick.C:
			if err := m.take(ctx, into); err != nil {
				return err
			}
		}
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		current(&pods.Items[i], into)
	}
	return nil
}

// metricsReader reads the metrics API again and again.
type metricsReader struct {
	client    kubernetes.Interface
	namespace string               // empty: all
	seen      map[string]time.Time // when Pods were measured last
}

// take adds what is new.
func (m metricsReader) take(ctx context.Context, into sizing.Series) error {
	path := "/apis/metrics.k8s.io/v1beta1/pods"
	if m.namespace != "" {
		path = "/apis/metrics.k8s.io/v1beta1/namespaces/" + m.namespace + "/pods"
	}
	rest := m.client.Discovery().RESTClient()
	if rest == nil {
		return errors.New("this client cannot ask the metrics API")
	}
	raw, err := rest.Get().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return cli.WithFix(fmt.Errorf("the metrics API: %w", err), "it is served where a metrics server runs, as with "+
			"`gantry up`; give usage as a file with --usage otherwise")
	}
	var list podMetrics
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("the metrics API: %w", err)
	}
	for _, p := range list.Items {
		id := p.Metadata.Namespace + "/" + p.Metadata.Name
		if !p.Timestamp.After(m.seen[id]) {
			continue
		}
		m.seen[id] = p.Timestamp
		for _, c := range p.Containers {
			u := into.Of(sizing.Key{Namespace: p.Metadata.Namespace, Workload: sizing.Workload(p.Metadata.Name),
				Container: c.Name})
			u.CPU = append(u.CPU, c.Usage.Cpu().AsApproximateFloat64())
			u.Memory = append(u.Memory, c.Usage.Memory().AsApproximateFloat64())
		}
	}
	return nil
}

// current notes what containers request and may take now.
func current(p *v1.Pod, into sizing.Series) {
	of := func(list v1.ResourceList) *sizing.Resources {
		out := &sizing.Resources{}
		if q, ok := list[v1.ResourceCPU]; ok {
			out.CPU = &q
		}
		if q, ok := list[v1.ResourceMemory]; ok {
			out.Memory = &q
		}
		return out
	}
	for _, c := range p.Spec.Containers {
		u := into[sizing.Key{Namespace: p.Namespace, Workload: sizing.Workload(p.Name), Container: c.Name}]
		if u != nil {
			u.Request, u.Limit = of(c.Resources.Requests), of(c.Resources.Limits)
		}
	}
}
