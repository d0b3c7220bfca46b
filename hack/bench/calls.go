package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/hack/bench/result"
)

// counts is the kubelet's calls to the runtime, by operation.
type counts map[string]float64

// counts reads the kubelet's metric kubelet_runtime_operations_total.
func (c *cluster) counts(ctx context.Context) (counts, error) {
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	if len(nodes.Items) != 1 {
		return nil, fmt.Errorf("%d nodes, want one", len(nodes.Items))
	}
	get := c.client.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes", nodes.Items[0].Name, "proxy/metrics")
	raw, err := get.DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("metrics of the kubelet: %w", err)
	}
	return readCounts(string(raw)), nil
}

// readCounts parses the metric in Prometheus' text format.
func readCounts(text string) counts {
	out := counts{}
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, `kubelet_runtime_operations_total{operation_type="`)
		if !ok {
			continue
		}
		name, value, _ := strings.Cut(rest, `"} `)
		if n, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
			out[name] = n
		}
	}
	return out
}

// ofNode are the operations by which the kubelet checks runtime and images, regardless of Pods.
var ofNode = []string{"version", "status", "runtime_config", "list_images", "image_fs_info"}

// grown adds the calls between two counts.
func (c counts) grown(before, after counts) {
	for name, n := range after {
		if d := n - before[name]; d > 0 {
			c[name] += d
		}
	}
}

// figures returns the calls divided by each, in total and by operation.
func (c counts) figures(name string, each float64, leave ...string) []result.Figure {
	total := 0.0
	var parts []result.Figure
	for _, operation := range slices.Sorted(maps.Keys(c)) {
		if n := c[operation] / each; !slices.Contains(leave, operation) {
			total += n
			parts = append(parts, result.Value(name+"/"+operation, "calls", n))
		}
	}
	return append([]result.Figure{result.Value(name, "calls", total)}, parts...)
}
