package podstatus

import (
	"cmp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	vocab "github.com/gantry-project/gantry/internal/pod"
)

// What upstream says of containers that nobody has seen end.
const (
	StatusUnknown        = "ContainerStatusUnknown"
	notLocatedTerminated = "The container could not be located when the pod was terminated"
	creating             = "ContainerCreating"
	podInitializing      = "PodInitializing"
	unknownExitCode      = 137
)

// containers fills in the statuses of all containers: init containers in the spec's order, the
// others by name.
func containers(in In, s *v1.PodStatus) {
	old := *s
	s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses = nil, nil, nil
	for _, m := range podplan.Members(in.Pod) {
		switch m.Kind {
		case podplan.Init, podplan.Sidecar:
			s.InitContainerStatuses = append(s.InitContainerStatuses,
				containerStatus(in, m, find(old.InitContainerStatuses, m.Name)))
		case podplan.App:
			s.ContainerStatuses = append(s.ContainerStatuses,
				containerStatus(in, m, find(old.ContainerStatuses, m.Name)))
		case podplan.Ephemeral:
			s.EphemeralContainerStatuses = append(s.EphemeralContainerStatuses,
				containerStatus(in, m, find(old.EphemeralContainerStatuses, m.Name)))
		}
	}
	if !in.Facts.ContainersStopped.IsZero() {
		terminate(in, old, s)
	}
	byName := func(a, b v1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(s.ContainerStatuses, byName)
	slices.SortFunc(s.EphemeralContainerStatuses, byName)
}

func find(list []v1.ContainerStatus, name string) *v1.ContainerStatus {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// containerStatus is the status of one container; old is what the API has of it, nil when nothing.
func containerStatus(in In, m podplan.Member, old *v1.ContainerStatus) v1.ContainerStatus {
	c := in.lastStarted(m.Name)
	st := v1.ContainerStatus{Name: m.Name, Image: m.Image, VolumeMounts: in.mounts(m)}
	if m.Kind != podplan.Ephemeral {
		st.Started = new(bool)
	}
	if old != nil {
		st.LastTerminationState, st.RestartCount = old.LastTerminationState, old.RestartCount
		st.AllocatedResourcesStatus = old.AllocatedResourcesStatus
	}
	if now := in.AllocatedResources[m.Name]; len(now) > 0 && m.Kind == podplan.App {
		st.AllocatedResourcesStatus = now
	}
	if (c == nil || c.Sandbox == "") && in.removed(m, old) {
		return removed(st, *old)
	}
	if c == nil || c.Exit.Reason == restartingAllContainers {
		st.State = waiting(in, m)
		return st
	}
	st.RestartCount = int32(c.Attempt)
	st.Image, st.ImageID, st.ContainerID = cmp.Or(c.Image.Name, m.Image), c.Image.Ref, in.containerID(c)
	st.User = c.Usage.User
	resources(in, m, c, &st)
	if before := in.Observed.Previous(c); before != nil && before.State == podplan.Exited {
		st.LastTerminationState = v1.ContainerState{Terminated: in.terminatedState(before)}
	}
	state(in, m, c, &st)
	return st
}

// lastStarted is the newest container of that name that was started; one that was only made, or
// whose postStart hook has not ended, is not shown yet.
func (in In) lastStarted(name string) *podplan.Container {
	c := in.Observed.Latest(name)
	if c != nil && in.RunningHooks[name] {
		return in.Observed.Previous(c)
	}
	for c != nil && c.State == podplan.Created {
		c = in.Observed.Previous(c)
	}
	return c
}

// state fills in state, readiness and start of a container that has a record.
func state(in In, m podplan.Member, c *podplan.Container, st *v1.ContainerStatus) {
	why, waits := in.Waiting[m.Name]
	back, backs := in.BackOffs[m.Name]
	switch {
	case c.State == podplan.Running:
		st.State.Running = &v1.ContainerStateRunning{StartedAt: apiTime(c.Started)}
		h := in.Health[m.Name]
		if st.Started != nil {
			*st.Started = m.Kind == podplan.Init || h.Started
		}
		st.Ready = h.Ready && (m.Kind == podplan.App || m.Kind == podplan.Sidecar)
	case c.State == podplan.Exited && backs && isShownRestarting(in.Pod, m, c):
		// once its Pod is over, it ends as every container that waits
		st.State.Waiting = &v1.ContainerStateWaiting{Reason: back.Reason, Message: back.Message}
		st.LastTerminationState = v1.ContainerState{Terminated: in.terminatedState(c)}
	case c.State == podplan.Exited && waits && in.End == nil && isShownRestarting(in.Pod, m, c):
		st.State.Waiting = &v1.ContainerStateWaiting{Reason: why.Reason, Message: why.Message}
		st.LastTerminationState = v1.ContainerState{Terminated: in.terminatedState(c)}
	case c.State == podplan.Exited && c.Restarting && !podplan.ShouldRestart(in.Pod, m, c.Exit.Code) && in.End == nil:
		// the API takes no container back that was shown to have ended for good
		st.State.Waiting = waiting(in, m).Waiting
		st.LastTerminationState = v1.ContainerState{Terminated: in.terminatedState(c)}
	case c.State == podplan.Exited:
		st.State.Terminated = in.terminatedState(c)
		st.Ready = m.Kind == podplan.Init && c.Exit.Code == 0
	case c.State == podplan.Unknown && !in.Facts.ContainersStopped.IsZero():
		st.State.Terminated = unknownTermination()
	default:
		st.State = waiting(in, m)
	}
}

// isShownRestarting tells whether a container that has ended is shown waiting for its next start. A
// sidecar that ended with 0 is not, and an ephemeral container is, as its Pod's restart policy
// says, although none follows it; so does upstream (convertToAPIContainerStatuses).
func isShownRestarting(p *v1.Pod, m podplan.Member, c *podplan.Container) bool {
	switch {
	case m.Kind == podplan.Sidecar && c.Exit.Code == 0:
		return false
	case m.Kind == podplan.Ephemeral:
		m.Kind = podplan.App
	}
	return c.Restarting || podplan.ShouldRestart(p, m, c.Exit.Code)
}

// terminate ends, in the statuses of a Pod that is over, containers that nobody has seen end: app
// containers once the Pod was initialized, init containers up to the last that ever began and
// always the first. Others keep waiting for what they waited for. old is what the API has. So does
// upstream's status manager (TerminatePod).
func terminate(in In, old v1.PodStatus, s *v1.PodStatus) {
	if wasInitialized(in, old.ContainerStatuses, *s) {
		terminateAll(s.ContainerStatuses)
	}
	last := len(s.InitContainerStatuses) - 1
	for last > 0 && neverStarted(s.InitContainerStatuses[last]) {
		last--
	}
	terminateAll(s.InitContainerStatuses[:last+1])
}

func terminateAll(list []v1.ContainerStatus) {
	for i := range list {
		if list[i].State.Terminated == nil {
			list[i].State = v1.ContainerState{Terminated: unknownTermination()}
		}
	}
}

// wasInitialized tells whether the Pod's init containers were behind it when it began to end; old
// is what the API has of app containers, s what is known now.
func wasInitialized(in In, old []v1.ContainerStatus, s v1.PodStatus) bool {
	inits := in.Pod.Spec.InitContainers
	ran := func(c v1.ContainerStatus) bool { return !neverStarted(c) }
	tried := func(c v1.ContainerStatus) bool { _, waits := in.Waiting[c.Name]; return waits }
	if len(inits) == 0 || slices.ContainsFunc(old, ran) || slices.ContainsFunc(s.ContainerStatuses, ran) ||
		slices.ContainsFunc(s.ContainerStatuses, tried) {
		return true
	}
	last := &inits[len(inits)-1]
	if vocab.IsSidecar(last) {
		was := find(in.Pod.Status.InitContainerStatuses, last.Name)
		return was != nil && was.State.Running != nil && was.Started != nil && *was.Started
	}
	c := in.Observed.Latest(last.Name)
	if c == nil || c.State != podplan.Exited || c.Exit.Code != 0 {
		return false
	}
	// Whole seconds: when the records are gone, the API has no more of it.
	return in.End == nil || c.Finished.Truncate(time.Second).Before(in.End.RequestedAt.Truncate(time.Second))
}

// neverStarted tells whether a status shows a container that has waited all the time.
func neverStarted(c v1.ContainerStatus) bool {
	return c.State.Waiting != nil && c.LastTerminationState.Terminated == nil
}

func unknownTermination() *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{ExitCode: unknownExitCode, Reason: StatusUnknown, Message: notLocatedTerminated}
}

func waiting(in In, m podplan.Member) v1.ContainerState {
	w := &v1.ContainerStateWaiting{Reason: creating}
	if len(in.Pod.Spec.InitContainers) > 0 && m.Kind != podplan.Ephemeral {
		w.Reason = podInitializing
	}
	if why, ok := in.Waiting[m.Name]; ok && (in.End == nil || in.Pod.DeletionTimestamp == nil) {
		w.Reason, w.Message = why.Reason, why.Message
	}
	return v1.ContainerState{Waiting: w}
}

// terminatedState renders a container that has ended.
func (in In) terminatedState(c *podplan.Container) *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{
		ExitCode: c.Exit.Code, Reason: c.Exit.Reason, Message: c.Exit.Message,
		StartedAt: apiTime(c.Started), FinishedAt: apiTime(c.Finished), ContainerID: in.containerID(c),
	}
}

func (in In) containerID(c *podplan.Container) string {
	if c.ID == "" || strings.Contains(c.ID, "://") {
		return c.ID
	}
	return in.Node.Runtime + "://" + c.ID
}

// resources shows what a container was granted and, while it runs, what it really runs with.
func resources(in In, m podplan.Member, c *podplan.Container, st *v1.ContainerStatus) {
	st.Resources = &v1.ResourceRequirements{}
	real, known := in.Resizes.Applied[m.Name]
	if !known || c.State != podplan.Running {
		real = m.Resources
	}
	if len(m.Resources.Requests) > 0 {
		st.AllocatedResources = m.Resources.Requests.DeepCopy()
	}
	if len(real.Requests) > 0 {
		st.Resources.Requests = real.Requests.DeepCopy()
	}
	if len(real.Limits) > 0 {
		st.Resources.Limits = real.Limits.DeepCopy()
	}
	st.Resources.Claims = slices.Clone(m.Resources.Claims)
}

func (in In) mounts(m podplan.Member) []v1.VolumeMountStatus {
	var out []v1.VolumeMountStatus
	for _, v := range m.VolumeMounts {
		s := v1.VolumeMountStatus{Name: v.Name, MountPath: v.MountPath, ReadOnly: v.ReadOnly}
		if v.ReadOnly {
			mode := v1.RecursiveReadOnlyDisabled
			if asked := v.RecursiveReadOnly; asked != nil && (*asked == v1.RecursiveReadOnlyEnabled ||
				*asked == v1.RecursiveReadOnlyIfPossible && in.RecursiveReadOnly) {
				mode = v1.RecursiveReadOnlyEnabled
			}
			s.RecursiveReadOnly = &mode
		}
		out = append(out, s)
	}
	return out
}

// apiTime is a time as the API keeps it: whole seconds. A time that never was is that of the
// runtime's zero, 1970, as upstream shows it.
func apiTime(t time.Time) metav1.Time {
	if t.IsZero() {
		return metav1.NewTime(time.Unix(0, 0))
	}
	return metav1.NewTime(t).Rfc3339Copy()
}
