package podplan_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// A container's end is shown before its back-off.
//
// row: RST-09
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

// After each end: how long until the container is started again, and the wait that it carries then;
// for each kind of container, and only for the one that ended.
//
// row: RST-06
// row: RST-07
// row: RST-08
// row: RST-09
func TestBackOffAfterEachEnd(t *testing.T) {
	ended := time.Unix(100000, 0)
	const missing = -1 // a container that another kubelet made has no note of its wait
	for _, x := range []struct {
		ran, carried time.Duration
		restarts     int
		wait, carry  time.Duration // in seconds, as all of them
	}{
		{1, 0, 0, 0, 10},
		{1, 10, 1, 10, 20},
		{1, 20, 2, 20, 40},
		{1, 40, 3, 40, 80},
		{1, 80, 4, 80, 160},
		{1, 160, 5, 160, 300},
		{1, 300, 6, 300, 300},
		{299, 300, 7, 300, 300},
		{301, 300, 7, 300, 300},
		{600, 300, 8, 300, 300}, // ten minutes are not more than ten minutes
		{601, 300, 9, 0, 10},
		{601, 20, 2, 0, 10},
		{1, missing, 0, 0, 10},
		{1, missing, 1, 10, 20},
		{1, missing, 4, 80, 160},
		{1, missing, 6, 300, 300},
		{1, missing, 90, 300, 300},
	} {
		for name, seen := range map[string]string{"a": "i=0 s=run a=1 b=run", "b": "i=0 s=run a=run b=0", "i": "i=1",
			"s": "i=0 s=0 a=run b=run"} {
			in := podplan.In{Pod: testPod(v1.RestartPolicyAlways), Observed: observedFrom(seen),
				Facts:  podplan.Facts{Accepted: ended.Add(-time.Hour), VolumesReady: ended.Add(-time.Hour)},
				Health: map[string]podplan.Health{"s": {Started: true}}}
			in.Pod.Name, in.Pod.Namespace, in.Pod.UID = "web", "shop", "u"
			c := in.Observed.Latest(name)
			c.Started, c.Finished, c.Attempt = ended.Add(-x.ran*time.Second), ended, x.restarts
			c.Annotations.CrashDelay = x.carried * time.Second
			at := ended.Add(x.wait * time.Second)
			if in.Now = at; x.wait > 0 {
				in.Now = at.Add(-time.Second)
				expectBackOff(t, podplan.Next(in), name, x.wait*time.Second, at)
				in.Now = at
			}
			starts := startsOf(podplan.Next(in))
			if len(starts) != 1 || starts[0].Name != name || starts[0].CrashDelay != x.carry*time.Second ||
				starts[0].Attempt != x.restarts+1 {
				t.Errorf("%s ran %ds, carries %ds after %d restarts: %+v, want its start after %ds with a wait of %ds",
					name, x.ran, x.carried, x.restarts, starts, x.wait, x.carry)
			}
		}
	}
}

func startsOf(p podplan.Plan) (out []podplan.Start) {
	for _, a := range p.Do {
		if s, ok := a.(podplan.Start); ok {
			out = append(out, s)
		}
	}
	return out
}

// expectBackOff fails unless the plan starts nothing and says that the container backs off until
// then.
func expectBackOff(t *testing.T, p podplan.Plan, name string, wait time.Duration, until time.Time) {
	t.Helper()
	if s := startsOf(p); len(s) > 0 {
		t.Errorf("%+v in its back-off of %s", s, wait)
	}
	want := journal.BackingOff{Container: name, What: "CrashLoopBackOff", Delay: journal.Took(wait), Until: until,
		Message: "back-off " + wait.String() + " restarting failed container=" + name + " pod=web_shop(u)"}
	for _, f := range p.Facts {
		if f == journal.Fact(want) {
			return
		}
	}
	t.Errorf("told %+v in its back-off, want %+v", p.Facts, want)
}
