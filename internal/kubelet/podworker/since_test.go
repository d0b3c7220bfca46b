package podworker

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// activeDeadlineSeconds and status.startTime of a Pod whose status nobody keeps count on after a
// restart of the kubelet: from its oldest sandbox.
//
// row: ISE-13
func TestAPodWithoutAStartTimeIsAsOldAsItsOldestSandbox(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	started := metav1.NewTime(ago(time.Hour))
	boxes := []podplan.Sandbox{{Created: ago(time.Minute)}, {Created: ago(5 * time.Minute)}, {}}
	for name, c := range map[string]struct {
		start *metav1.Time
		boxes []podplan.Sandbox
		want  time.Time
	}{
		"nothing is known of it":       {nil, nil, now},
		"its sandboxes are there":      {nil, boxes, ago(5 * time.Minute)},
		"its status tells":             {&started, boxes, ago(time.Hour)},
		"a sandbox of a clock ahead":   {nil, []podplan.Sandbox{{Created: now.Add(time.Hour)}}, now},
		"a sandbox that tells no time": {nil, []podplan.Sandbox{{}}, now},
	} {
		in := podplan.In{Pod: &v1.Pod{Status: v1.PodStatus{StartTime: c.start}}, Now: now}
		in.Observed.Sandboxes = c.boxes
		if got := acceptedAt(in); !got.Equal(c.want) {
			t.Errorf("%s: %s before now, want %s", name, now.Sub(got), now.Sub(c.want))
		}
	}
}
