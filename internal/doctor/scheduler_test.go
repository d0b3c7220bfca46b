package doctor_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/internal/doctor"
)

// row: OPS-16, SCH-29
func TestSlowSchedulerFindings(t *testing.T) {
	s := &doctor.Scheduler{Address: "127.0.0.1:10259", P99: 210 * time.Millisecond, Attempts: 900,
		Pending:        map[string]int64{"active": 40, "backoff": 7, "unschedulable": 3, "gated": 2},
		Percent:        map[string]int64{"default-scheduler": 100},
		MetricsUpdated: map[string]time.Time{"nodes": now.Add(-time.Second), "pods": now.Add(-10 * time.Minute)}}
	var got []string
	for _, f := range doctor.Examine(doctor.Facts{Now: now, Scheduler: s}) {
		got = append(got, f.Level.String()+" "+f.Text)
	}
	want := []string{
		"warning slow: the 99th percentile of 900 attempts is 210ms, more than 200ms",
		"queue depth: 40 active, 7 backoff, 3 unschedulable, 2 gated",
		"percentageOfNodesToScore: default-scheduler 100", "informer cache: last told of nodes 1s ago, pods 10m0s ago",
	}
	if len(got) != len(want) {
		t.Fatalf("got %q", got)
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("line %d is %q, want %q", i, got[i], want[i])
		}
	}
}

// Up to 200 ms nothing is wrong.
//
// row: SCH-29
// row: OPS-16
func TestASchedulerThatIsWellTakesOneLine(t *testing.T) {
	for text, s := range map[string]*doctor.Scheduler{
		"of 7 attempts 99 % took at most 12ms":  {P99: 12 * time.Millisecond, Attempts: 7},
		"of 8 attempts 99 % took at most 200ms": {P99: 200 * time.Millisecond, Attempts: 8},
		"no Pod has been scheduled yet":         {},
		"cannot be read: refused":               {Err: errors.New("refused")},
	} {
		if got := doctor.Examine(doctor.Facts{Now: now, Scheduler: s}); len(got) != 1 || !strings.Contains(got[0].Text,
			text) || got[0].Check != "scheduling" {
			t.Errorf("got %+v, want %q", got, text)
		}
	}
}

// The 99th percentile is that of attempts of all results together.
//
// row: OPS-16, SCH-29
func TestASchedulersMetricsAreRead(t *testing.T) {
	const text = `# TYPE scheduler_pending_pods gauge
scheduler_pending_pods{queue="active"} 3
scheduler_pending_pods{queue="gated"} 1
# TYPE gantry_scheduler_percentage_of_nodes_to_score gauge
gantry_scheduler_percentage_of_nodes_to_score{profile="default-scheduler"} 100
# TYPE gantry_scheduler_informer_last_event_timestamp_seconds gauge
gantry_scheduler_informer_last_event_timestamp_seconds{resource="pods"} 1.7e+09
# TYPE scheduler_scheduling_attempt_duration_seconds histogram
scheduler_scheduling_attempt_duration_seconds_bucket{profile="p",result="scheduled",le="0.1"} 90
scheduler_scheduling_attempt_duration_seconds_bucket{profile="p",result="scheduled",le="0.4"} 95
scheduler_scheduling_attempt_duration_seconds_bucket{profile="p",result="scheduled",le="+Inf"} 95
scheduler_scheduling_attempt_duration_seconds_sum{profile="p",result="scheduled"} 9
scheduler_scheduling_attempt_duration_seconds_count{profile="p",result="scheduled"} 95
scheduler_scheduling_attempt_duration_seconds_bucket{profile="p",result="error",le="0.1"} 5
scheduler_scheduling_attempt_duration_seconds_bucket{profile="p",result="error",le="0.4"} 5
scheduler_scheduling_attempt_duration_seconds_bucket{profile="p",result="error",le="+Inf"} 5
scheduler_scheduling_attempt_duration_seconds_sum{profile="p",result="error"} 1
scheduler_scheduling_attempt_duration_seconds_count{profile="p",result="error"} 5
`
	s := doctor.ReadScheduler("a:1", strings.NewReader(text))
	if s.Err != nil || s.Attempts != 100 || s.P99 != 400*time.Millisecond || s.Pending["active"] != 3 ||
		s.Pending["gated"] != 1 || s.Percent["default-scheduler"] != 100 ||
		s.MetricsUpdated["pods"].Unix() != 1_700_000_000 {
		t.Errorf("got %+v, want no Err, Attempts 100, P99 %v, Pending[active] 3, Pending[gated] 1, "+
			"Percent[default-scheduler] 100 and Unix 1_700_000_000", s, 400*time.Millisecond)
	}
	if s := doctor.ReadScheduler("a:1", strings.NewReader("{")); s.Err == nil {
		t.Errorf("got %+v, want set Err", s)
	}
}
