package podplan_test

import (
	"testing"
	"time"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// A container's end is shown before its back-off.
func TestBackOffShown(t *testing.T) {
	ended := time.Unix(1000, 0)
	c := podplan.Container{Name: "app", State: podplan.Exited, Finished: ended}
	other := func(started, finished time.Time) podplan.Observed {
		return podplan.Observed{Containers: []podplan.Container{c,
			{Name: "other", Started: started, Finished: finished}}}
	}
	for _, tc := range []struct {
		name string
		seen podplan.Observed
		wait time.Duration
		want time.Duration // after the end
	}{
		{"the last seconds", other(ended.Add(-time.Hour), time.Time{}), 10 * time.Second, 6 * time.Second},
		{"not longer than 18 s", podplan.Observed{}, 5 * time.Minute, 18 * time.Second},
		{"another container ended later", other(ended.Add(-time.Hour), ended.Add(time.Second)), 10 * time.Second, 0},
		{"another container was started later", other(ended.Add(time.Second), time.Time{}), 10 * time.Second, 0},
	} {
		if got := podplan.BackOffShown(tc.seen, &c, ended.Add(tc.wait)).Sub(ended); got != tc.want {
			t.Errorf("%s: %s after the end, want %s", tc.name, got, tc.want)
		}
	}
}
