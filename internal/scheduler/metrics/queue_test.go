package metrics

import (
	"fmt"
	"testing"

	"k8s.io/component-base/metrics"

	"github.com/gantry-project/gantry/internal/scheduler/queue"
)

// Each queue has its own depth, and what it had before is forgotten.
//
// row: SCH-34
func TestTheDepthOfEachQueue(t *testing.T) {
	r := metrics.NewKubeRegistry()
	m := New(r, false)
	for _, c := range []queue.StageCounts{{Active: 1, Backoff: 2, Unschedulable: 3, Gated: 4}, {Active: 5}, {}} {
		m.Queue.SetPending(c)
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for _, f := range families {
			if f.GetName() == "scheduler_pending_pods" {
				for _, one := range f.GetMetric() {
					got[one.GetLabel()[0].GetValue()] = int(one.GetGauge().GetValue())
				}
			}
		}
		want := map[string]int{"active": c.Active, "backoff": c.Backoff, "unschedulable": c.Unschedulable,
			"gated": c.Gated}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}
