package coscheduling

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestNextStatus(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	pods := func(phases ...v1.PodPhase) (out []*v1.Pod) {
		for _, phase := range phases {
			p := &v1.Pod{Status: v1.PodStatus{Phase: phase}}
			if phase != "" {
				p.Spec.NodeName = "n"
			}
			out = append(out, p)
		}
		return out
	}
	for name, c := range map[string]struct {
		was     string
		members []*v1.Pod
		want    Status
	}{
		"too few":      {"", pods("", v1.PodRunning), Status{Phase: PhasePending, Scheduled: 1, Running: 1}},
		"enough exist": {PhasePending, pods("", "", ""), Status{Phase: PhaseScheduling}},
		"enough have nodes": {PhaseScheduling, pods(v1.PodPending, v1.PodPending, v1.PodRunning),
			Status{Phase: PhaseScheduled, Scheduled: 3, Running: 1}},
		"enough run": {PhaseScheduled, pods(v1.PodRunning, v1.PodRunning, v1.PodSucceeded),
			Status{Phase: PhaseRunning, Scheduled: 3, Running: 2, Succeeded: 1}},
		"one failed": {PhaseRunning, pods(v1.PodRunning, v1.PodRunning, v1.PodFailed),
			Status{Phase: PhaseFailed, Scheduled: 3, Running: 2, Failed: 1}},
		"one failed early": {PhaseScheduled, pods(v1.PodPending, v1.PodPending, v1.PodFailed),
			Status{Phase: PhaseScheduled, Scheduled: 3, Failed: 1}},
		"all succeeded": {PhaseRunning, pods(v1.PodSucceeded, v1.PodSucceeded, v1.PodSucceeded),
			Status{Phase: PhaseFinished, Scheduled: 3, Succeeded: 3}},
		"finished for good": {PhaseFinished, nil, Status{Phase: PhaseFinished}},
		"all of them went":  {PhaseRunning, nil, Status{Phase: PhasePending}},
	} {
		t.Run(name, func(t *testing.T) {
			g := &Group{Spec: Spec{MinMember: 3}, Status: Status{Phase: c.was}}
			got := NextStatus(g, c.members, now)
			if began := got.ScheduleStartTime != nil; began != (c.was != PhaseFinished && got.Phase != PhasePending) {
				t.Errorf("scheduleStartTime %v in phase %s", got.ScheduleStartTime, got.Phase)
			}
			got.ScheduleStartTime = nil
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
