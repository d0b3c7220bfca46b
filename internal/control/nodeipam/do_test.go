package nodeipam

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/test/wrappers"
)

func node(name string, ranges ...string) *corev1.Node {
	return wrappers.MakeNode().Name(name).UID("uid-x").PodCIDRs(ranges...).Obj()
}

func TestNodesGetAndReleaseCIDRs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		client := fake.NewClientset(node("old", "10.71.0.0/24"))
		events := record.NewFakeRecorder(100)
		shared := informers.NewSharedInformerFactory(client, 0)
		r := New(controllerruntime.ControllerContext{Client: client, Informers: shared, Recorder: events,
			NodeRanges: controllerruntime.NodeRanges{Cluster: "10.71.0.0/23"}})
		shared.Start(ctx.Done())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		synctest.Wait()
		has := func(name string) string {
			t.Helper()
			time.Sleep(time.Second) // informers batch events for a while
			synctest.Wait()
			n, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(n.Spec.PodCIDRs) > 0 && n.Spec.PodCIDR != n.Spec.PodCIDRs[0] {
				t.Errorf("%s: podCIDR %s, podCIDRs %v", name, n.Spec.PodCIDR, n.Spec.PodCIDRs)
			}
			return n.Spec.PodCIDR
		}
		add := func(name string) {
			if _, err := client.CoreV1().Nodes().Create(ctx, node(name), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		add("a")
		if got := has("a"); got != "10.71.1.0/24" {
			t.Errorf("a has %s, want 10.71.1.0/24", got)
		}
		add("b")
		if got := has("b"); got != "" {
			t.Errorf("b has %s, but none was free, want none", got)
		}
		if got := <-events.Events; got != "Normal CIDRNotAvailable Node b status is now: CIDRNotAvailable" {
			t.Errorf("event %q, want %q", got, "Normal CIDRNotAvailable Node b status is now: CIDRNotAvailable")
		}
		if err := client.CoreV1().Nodes().Delete(ctx, "old", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := has("b"); got != "10.71.0.0/24" {
			t.Errorf("b has %q after old went, want 10.71.0.0/24", got)
		}
		checkCounts(t, "10.71.0.0/23")
		cancel()
		<-done
		shared.Shutdown()
	})
}

// checkCounts checks the families after three CIDRs of two were taken and one was set free.
func checkCounts(t *testing.T, cluster string) {
	t.Helper()
	passed, err := testutil.GetHistogramMetricValue(tries.WithLabelValues(cluster))
	if err != nil {
		t.Fatal(err)
	}
	requests, err := testutil.GetHistogramMetricCount(tries.WithLabelValues(cluster))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{"taken ones passed": passed, "requests": float64(requests)}
	for name, of := range map[string]metrics.CounterMetric{"allocations": allocations.WithLabelValues(cluster),
		"releases": releases.WithLabelValues(cluster)} {
		if got[name], err = testutil.GetCounterMetricValue(of); err != nil {
			t.Fatal(err)
		}
	}
	for name, of := range map[string]metrics.GaugeMetric{"most": maxCIDRs.WithLabelValues(cluster),
		"usage": usage.WithLabelValues(cluster)} {
		if got[name], err = testutil.GetGaugeMetricValue(of); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]float64{"allocations": 3, "releases": 1, "most": 2, "usage": 1, "requests": 2,
		"taken ones passed": 1}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
