package scheduler

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"

	"github.com/gantry-project/gantry/test/metriclist"
)

// upstreamMetrics are the metrics that kube-scheduler v1.37.2 served after it had scheduled,
// refused, gated and preempted: type, name, labels. A line that begins with - is not served here,
// and docs/user/metrics.md says why.
//
//go:embed testdata/metrics-v1.37.2.txt
var upstreamMetrics string

// TestMetricsAreNamedAsUpstreams lets every kind of thing happen that the list has metrics of, and
// asks for the same types and labels.
//
// row: OPS-12, SCH-34
func TestMetricsAreNamedAsUpstreams(t *testing.T) {
	t.Parallel()
	r := metrics.NewKubeRegistry()
	c := start(t, func(o *Options) { o.Metrics = r }, aNode("n1", "2"), aNode("n2", "2"),
		aPod("old", "1", onNode("n1", 1)), aPod("older", "1", onNode("n2", 1)))
	c.create(aPod("fits", "1"))
	c.bound("fits")
	c.create(aPod("waits", "9"))
	c.await("waits", "refused", isUnschedulable)
	c.create(aPod("high", "2", highPriority))
	c.bound("high")
	if _, err := c.CoreV1().Nodes().Create(t.Context(), aNode("n3", "1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range recordPluginMetricsEvery {
		c.create(aPod(fmt.Sprintf("p%d", i), "1m"))
	}
	want := map[string]string{}
	for line := range strings.Lines(upstreamMetrics) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] != "-" && f[0] != "#" {
			want[f[1]] = strings.Join(slices.Concat(f[:1], f[2:]), " ")
		}
	}
	var got map[string]string
	missing := func() []string {
		got = metricNames(t, r)
		return slices.DeleteFunc(slices.Sorted(maps.Keys(want)),
			func(name string) bool { return got[name] == want[name] })
	}
	for end := time.Now().Add(patience); len(missing()) > 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	for _, name := range missing() {
		t.Errorf("%s is %q, want %q", name, got[name], want[name])
	}
}

// The list of the page of metrics is what the scheduler registers.
//
// row: SCH-34
func TestMetricsAreListed(t *testing.T) {
	t.Parallel()
	r := metrics.NewKubeRegistry()
	start(t, func(o *Options) { o.Metrics = r; o.ShadowCheck = true })
	all, ok := r.Registerer().(*prometheus.Registry)
	if !ok {
		t.Fatalf("got a registry of type %T, want *prometheus.Registry", r.Registerer())
	}
	metriclist.Check(t, "scheduler", true, metriclist.Registered(t, all))
}

// metricNames gives type and labels of each metric.
func metricNames(t *testing.T, r metrics.KubeRegistry) map[string]string {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range families {
		labels := []string{strings.ToLower(f.GetType().String())}
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		out[f.GetName()] = strings.Join(labels, " ")
	}
	return out
}
