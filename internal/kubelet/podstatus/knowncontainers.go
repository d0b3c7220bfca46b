package podstatus

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// MergeKnown adds to what the runtime has those containers that only the API still knows of: their
// records were removed, or the runtime was wiped with the machine. One that had ended keeps its
// end; one that ran ended unseen. They have no sandbox, so nothing is done to them.
func MergeKnown(seen podplan.Observed, s v1.PodStatus) podplan.Observed {
	added, all := false, RestartingAll(s)
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses,
		s.EphemeralContainerStatuses} {
		for _, st := range list {
			if c, ok := containerFromStatus(seen, st); ok {
				c.Restarting = c.Restarting || all
				if !added {
					seen.Containers = slices.Clone(seen.Containers)
					added = true
				}
				seen.Containers = append(seen.Containers, c)
			}
		}
	}
	if added {
		seen.Sort()
	}
	return seen
}

func containerFromStatus(seen podplan.Observed, st v1.ContainerStatus) (podplan.Container, bool) {
	restartingAll := startedOver(st)
	if st.ContainerID == "" && !restartingAll || seen.Latest(st.Name) != nil {
		return podplan.Container{}, false
	}
	c := podplan.Container{
		ID: st.ContainerID, Name: st.Name, Attempt: int(st.RestartCount), State: podplan.Exited,
		Image:       podplan.Image{Name: st.Image, Ref: st.ImageID},
		Annotations: podplan.Annotations{CrashDelay: -1}, Usage: podplan.RuntimeUsage{User: st.User},
	}
	ended := st.State.Terminated
	if ended == nil && st.State.Waiting != nil { // it was to be started again
		ended, c.Restarting = st.LastTerminationState.Terminated, true
	}
	if restartingAll {
		c.Attempt = max(c.Attempt-1, 0) // the count is that of the start to come
	}
	switch {
	case ended != nil:
		c.Started, c.Finished = ended.StartedAt.Time, ended.FinishedAt.Time
		c.Exit = podplan.Exit{Code: ended.ExitCode, Reason: ended.Reason, Message: ended.Message}
	case st.State.Running != nil:
		c.Started = st.State.Running.StartedAt.Time
		c.Exit = podplan.Exit{Code: unknownExitCode, Reason: StatusUnknown, Message: notLocatedRunning}
	default:
		return podplan.Container{}, false
	}
	return c, true
}

const notLocatedRunning = "The container could not be located when the pod was deleted.  The container used to be " +
	"Running"
