package scheduler

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"

	"github.com/gantry-project/gantry/test/expect"
)

// row: OPS-12, SCH-29, SCH-34
func TestMetricsCountAttemptsAndQueues(t *testing.T) {
	t.Parallel()
	r := metrics.NewKubeRegistry()
	began := time.Now()
	c := start(t, func(o *Options) { o.Metrics = r }, aNode("n1", "1"))
	c.create(aPod("fits", "1"))
	c.bound("fits")
	started := time.Now() // the gauges have had their first values
	c.create(aPod("waits", "1"))
	c.await("waits", "refused", isUnschedulable)
	told := time.Now()
	n := aNode("n1", "1")
	n.Labels["more"] = "labels" // of which no result for either Pod depends
	if _, err := c.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		"scheduler_schedule_attempts_total/scheduled":     1,
		"scheduler_schedule_attempts_total/unschedulable": 1,
		"scheduler_pending_pods/unschedulable":            1,
		"scheduler_preemption_attempts_total":             1, // without success

		"scheduler_async_api_call_execution_total/pod_status_patch": 1,
		"scheduler_async_api_call_execution_total/pod_binding":      1,
		"scheduler_async_api_call_execution_duration_seconds":       2,
		"scheduler_pending_async_api_calls/pod_binding":             0,
		"scheduler_queue_incoming_pods_total/UnscheduledPodAdd":     2,
		"scheduler_queue_incoming_entities_total/pod":               2,
		"scheduler_queued_entities/podgroup":                        0,

		"scheduler_batch_attempts_total/no_hint":   1,
		"scheduler_batch_attempts_total/hint_used": 1,

		// both attempts ask filters; a single node is not scored
		"scheduler_plugin_evaluation_total/NodeResourcesFit": 4,
		"scheduler_plugin_evaluation_total/ImageLocality":    0,
		"scheduler_plugin_evaluation_total/NodeName":         2,

		"scheduler_scheduling_attempt_duration_seconds": 2,
	}
	var got map[string]float64
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		got = gather(t, r)
		same := true
		for k, v := range want {
			same = same && got[k] == v
		}
		if same {
			break
		}
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %v, want %v", k, got[k], v)
		}
	}
	for _, name := range []string{"scheduler_scheduling_attempt_duration_seconds",
		"scheduler_framework_extension_point_duration_seconds", "scheduler_pod_scheduling_sli_duration_seconds"} {
		if got[name] == 0 {
			t.Errorf("%s observed nothing", name)
		}
	}
	for of, least := range map[string]time.Time{"nodes": told, "pods": started} {
		expect.EventuallyNoError(t, "when the informer last told of "+of, func() error {
			at := gather(t, r)["gantry_scheduler_informer_last_event_timestamp_seconds/"+of]
			if now := float64(time.Now().Unix() + 1); at < float64(least.UnixMilli())/1000 || at > now {
				return fmt.Errorf("got %v, want after %v", at, least)
			}
			return nil
		})
	}
	if sum := sumOf(t, r, "scheduler_scheduling_attempt_duration_seconds"); sum <= 0 ||
		sum > 2*time.Since(began).Seconds() {
		t.Errorf("the attempts took %v seconds together, of %v", sum, time.Since(began))
	}
}

// sumOf is the sum of all that a histogram observed.
func sumOf(t *testing.T, r metrics.KubeRegistry, name string) (sum float64) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetHistogram().GetSampleSum()
			}
		}
	}
	return sum
}

// TestPluginsAreTimedOneByOne looks for every extension point at which plugins see nodes, in a
// cycle with cached results and in one where a plugin runs node by node.
func TestPluginsAreTimedOneByOne(t *testing.T) {
	t.Parallel()
	r := metrics.NewKubeRegistry()
	c := start(t, func(o *Options) { o.Metrics = r }, aNode("n1", "100"), aNode("n2", "100"))
	for i := range 2 * recordPluginMetricsEvery {
		name := fmt.Sprintf("p%d", i)
		c.create(aPod(name, "1"))
		c.bound(name)
	}
	seen := map[[2]string]uint64{}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "scheduler_plugin_execution_duration_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			seen[[2]string{labels["extension_point"], labels["plugin"]}] += m.GetHistogram().GetSampleCount()
		}
	}
	for _, want := range [][2]string{{"PreFilter", "NodeVolumeLimits"}, {"Filter", "NodeResourcesFit"},
		{"Score", "NodeResourcesFit"}, {"Bind", "DefaultBinder"}} {
		if seen[want] == 0 {
			t.Errorf("%s of %s was not timed: %v", want[0], want[1], seen)
		}
	}
}

// gather gives counters and gauges as "name/label value", and how often each histogram observed.
func gather(t *testing.T, r metrics.KubeRegistry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			out[f.GetName()] += float64(m.GetHistogram().GetSampleCount())
			if len(m.GetLabel()) == 0 {
				out[f.GetName()] += m.GetCounter().GetValue()
			}
			for _, l := range m.GetLabel() {
				out[f.GetName()+"/"+l.GetValue()] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return out
}
