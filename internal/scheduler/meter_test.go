package scheduler

import (
	"testing"
	"time"

	"k8s.io/component-base/metrics"
)

// row: OPS-12
func TestMetricsCountAttemptsAndQueues(t *testing.T) {
	r := metrics.NewKubeRegistry()
	c := start(t, func(o *Options) { o.Metrics = r }, aNode("n1", "1"))
	c.create(aPod("fits", "1"))
	c.bound("fits")
	c.create(aPod("waits", "1"))
	c.await("waits", "refused", waits)
	want := map[string]float64{
		"scheduler_schedule_attempts_total/scheduled":     1,
		"scheduler_schedule_attempts_total/unschedulable": 1,
		"scheduler_pending_pods/unschedulable":            1,
		"scheduler_queue_incoming_pods_total/PodAdd":      2,
	}
	var got map[string]float64
	for end := time.Now().Add(8 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
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
	for _, name := range []string{"scheduler_scheduling_attempt_duration_seconds", "scheduler_framework_extension_point_duration_seconds", "scheduler_pod_scheduling_sli_duration_seconds"} {
		if got[name] == 0 {
			t.Errorf("%s observed nothing", name)
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
			for _, l := range m.GetLabel() {
				out[f.GetName()+"/"+l.GetValue()] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return out
}
