package podstatus

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/pod"
)

// What v1.37.2 says of containers whose records it removed to restart all containers of a Pod
// (KEP-5532): they wait, and their last state is this one, whatever their own end was, until they
// end again.
const (
	restartingAllContainers = "RestartingAllContainers"
	removedInPlace          = "The container is removed because RestartAllContainers in place"
)

// startedOver tells whether a status shows a container that was removed for a restart of all and
// has not begun again.
func startedOver(st v1.ContainerStatus) bool {
	last := st.LastTerminationState.Terminated
	return st.State.Waiting != nil && last != nil && last.Reason == restartingAllContainers
}

// removed tells whether a container without a record has lost it to the restart of all that the
// Pod's last status tells of.
func (in In) removed(m podplan.Member, old *v1.ContainerStatus) bool {
	return m.Kind != podplan.Ephemeral && in.End == nil && old != nil && old.State.Waiting == nil &&
		pod.CanRestartAll(in.Pod) && RestartingAll(in.Pod.Status)
}

// RestartingAll tells whether a status says that all containers are being restarted.
func RestartingAll(s v1.PodStatus) bool { return holds(s, v1.AllContainersRestarting) }

func holds(s v1.PodStatus, what v1.PodConditionType) bool {
	return slices.ContainsFunc(s.Conditions, func(c v1.PodCondition) bool {
		return c.Type == what && c.Status == v1.ConditionTrue
	})
}

// removed is the status of such a container; old is the one before. An init container that had
// succeeded is ready on until it waits for its start, as upstream's is.
func removed(st, old v1.ContainerStatus) v1.ContainerStatus {
	if old.State.Terminated != nil {
		st = old
	}
	st.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: restartingAllContainers,
		Message: removedInPlace}}
	st.LastTerminationState = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
		Reason: restartingAllContainers, Message: removedInPlace, ExitCode: unknownExitCode,
	}}
	st.RestartCount, st.Started = old.RestartCount+1, new(bool)
	return st
}
