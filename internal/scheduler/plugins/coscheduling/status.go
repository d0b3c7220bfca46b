package coscheduling

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phases of a PodGroup, as upstream's controller of them names them.
const (
	PhasePending    = "Pending"    // fewer members exist than have to be placed at once
	PhaseScheduling = "Scheduling" // enough exist, not all of those have a node
	PhaseScheduled  = "Scheduled"  // enough have a node
	PhaseRunning    = "Running"    // enough run, or have run
	PhaseFinished   = "Finished"   // enough have succeeded; final
	PhaseFailed     = "Failed"     // one failed after enough were started; final
)

// Status is a PodGroup's status.
type Status struct {
	Phase             string       `json:"phase,omitempty"`
	OccupiedBy        string       `json:"occupiedBy,omitempty"`
	Scheduled         int32        `json:"scheduled,omitempty"`
	Running           int32        `json:"running,omitempty"`
	Succeeded         int32        `json:"succeeded,omitempty"`
	Failed            int32        `json:"failed,omitempty"`
	ScheduleStartTime *metav1.Time `json:"scheduleStartTime,omitempty"`
}

// NextStatus is what a group's status should be, given its members. A final phase stays.
func NextStatus(g *Group, members []*v1.Pod, now time.Time) Status {
	s := g.Status
	if s.Phase == PhaseFinished || s.Phase == PhaseFailed {
		return s
	}
	s.Scheduled, s.Running, s.Succeeded, s.Failed = 0, 0, 0, 0
	for _, p := range members {
		if p.Spec.NodeName != "" {
			s.Scheduled++
		}
		switch p.Status.Phase {
		case v1.PodRunning:
			s.Running++
		case v1.PodSucceeded:
			s.Succeeded++
		case v1.PodFailed:
			s.Failed++
		}
	}
	least, started := g.Spec.MinMember, s.Running+s.Succeeded
	switch {
	case s.Succeeded >= least:
		s.Phase = PhaseFinished
	case s.Failed > 0 && s.Failed+started >= least:
		s.Phase = PhaseFailed
	case started >= least:
		s.Phase = PhaseRunning
	case s.Scheduled >= least:
		s.Phase = PhaseScheduled
	case len(members) >= int(least):
		s.Phase = PhaseScheduling
	default:
		s.Phase = PhasePending
	}
	if s.Phase != PhasePending && s.ScheduleStartTime == nil {
		at := metav1.NewTime(now.Truncate(time.Second))
		s.ScheduleStartTime = &at
		s.OccupiedBy = occupiedBy(members)
	}
	return s
}

// occupiedBy names what the first member belongs to.
func occupiedBy(members []*v1.Pod) string {
	if len(members) == 0 {
		return ""
	}
	var out []string
	for _, o := range members[0].OwnerReferences {
		out = append(out, members[0].Namespace+"/"+o.Name)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// Same tells whether two say the same.
func (s Status) Same(other Status) bool {
	at, otherAt := s.ScheduleStartTime, other.ScheduleStartTime
	s.ScheduleStartTime, other.ScheduleStartTime = nil, nil
	return s == other && at.Equal(otherAt)
}

// Content is the status with its zeros, so that a merge patch takes old counts back.
func (s Status) Content() map[string]any {
	out := map[string]any{"phase": s.Phase, "scheduled": s.Scheduled, "running": s.Running, "succeeded": s.Succeeded,
		"failed": s.Failed}
	if s.OccupiedBy != "" {
		out["occupiedBy"] = s.OccupiedBy
	}
	if s.ScheduleStartTime != nil {
		out["scheduleStartTime"] = s.ScheduleStartTime
	}
	return out
}
