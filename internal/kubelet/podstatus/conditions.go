package podstatus

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/pod"
)

// Reasons of conditions, as upstream gives them.
const (
	reasonNotReady       = "ContainersNotReady"
	reasonNotInitialized = "ContainersNotInitialized"
	reasonGates          = "ReadinessGatesNotReady"
	reasonCompleted      = "PodCompleted"
	reasonFailed         = "PodFailed"

	reasonSandboxNotReady = "PodSandboxNotReady"
	sandboxStopped        = "pod sandbox is not ready"
)

// OwnedConditions are the conditions the kubelet writes; all others are passed through.
var OwnedConditions = []v1.PodConditionType{v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady,
	v1.ContainersReady, v1.PodScheduled, v1.PodResizePending, v1.PodResizeInProgress, v1.AllContainersRestarting}

// conditions derives the kubelet's conditions. phase is the derived one, which may be ahead of the
// one shown.
func conditions(in In, s v1.PodStatus, phase v1.PodPhase) []v1.PodCondition {
	var out []v1.PodCondition
	for _, c := range in.Pod.Status.Conditions {
		if !slices.Contains(OwnedConditions, c.Type) {
			out = append(out, c)
		}
	}
	for _, c := range resizeConditions(in, s.Phase) {
		c = withTransitionTime(in, c)
		if c.LastProbeTime.IsZero() {
			c.LastProbeTime = c.LastTransitionTime
		}
		out = append(out, c)
	}
	all := containersReady(in, s, phase)
	for _, c := range []v1.PodCondition{
		readyToStart(in),
		initializedCondition(in, s, phase),
		ready(in, all),
		all,
		{Type: v1.PodScheduled, Status: v1.ConditionTrue},
	} {
		c.ObservedGeneration = in.Pod.Generation
		out = append(out, withTransitionTime(in, c))
	}
	if pod.CanRestartAll(in.Pod) { // upstream gives this one no observedGeneration
		out = append(out, withTransitionTime(in, restartingAll(in, phase)))
	}
	return out
}

// withTransitionTime gives a condition the time of its last change of status.
func withTransitionTime(in In, c v1.PodCondition) v1.PodCondition {
	for _, old := range in.Pod.Status.Conditions {
		if old.Type == c.Type {
			c.LastProbeTime = old.LastProbeTime
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
				return c
			}
		}
	}
	c.LastTransitionTime = metav1.NewTime(in.Now).Rfc3339Copy()
	return c
}

func readyToStart(in In) v1.PodCondition {
	switch missing := missingOfSandbox(in); {
	case missing != "" && in.Node.V136: // which did not say why
		return v1.PodCondition{Type: v1.PodReadyToStartContainers, Status: v1.ConditionFalse}
	case missing != "":
		return v1.PodCondition{Type: v1.PodReadyToStartContainers, Status: v1.ConditionFalse,
			Reason: reasonSandboxNotReady, Message: missing}
	}
	return v1.PodCondition{Type: v1.PodReadyToStartContainers, Status: v1.ConditionTrue}
}

// missingOfSandbox is what keeps containers from being started in the Pod's sandbox, in the words
// of v1.37; empty when nothing does.
func missingOfSandbox(in In) string {
	sandbox, ready := in.Observed.Sandbox(), 0
	for _, s := range in.Observed.Sandboxes {
		if s.Ready {
			ready++
		}
	}
	switch {
	case sandbox == nil && !in.Facts.ContainersStopped.IsZero() && hadSandbox(in):
		return sandboxStopped // it has been removed since; upstream's status ends with the stop
	case sandbox == nil:
		return "no pod sandbox exists"
	case ready > 1:
		return "multiple pod sandboxes are ready and need to be reconciled"
	case !sandbox.Ready:
		return sandboxStopped
	case !in.Pod.Spec.HostNetwork && len(sandbox.IPs) == 0:
		return "pod sandbox has no IP address"
	}
	return ""
}

// hadSandbox tells whether the Pod was shown with a sandbox, ready or stopped.
func hadSandbox(in In) bool {
	return slices.ContainsFunc(in.Pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReadyToStartContainers && (c.Status == v1.ConditionTrue || c.Message == sandboxStopped)
	})
}

func initializedCondition(in In, s v1.PodStatus, phase v1.PodPhase) v1.PodCondition {
	c := v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionTrue}
	var incomplete []string
	for i := range in.Pod.Spec.InitContainers {
		spec := &in.Pod.Spec.InitContainers[i]
		st := find(s.InitContainerStatuses, spec.Name)
		done := st.Ready
		if pod.IsSidecar(spec) {
			done = *st.Started
		}
		if !done {
			incomplete = append(incomplete, spec.Name)
		}
	}
	switch {
	case phase == v1.PodSucceeded:
		c.Reason = reasonCompleted
	case holds(in.Pod.Status, v1.PodInitialized): // v1.37.2 takes it back for no restart
	case len(incomplete) > 0 && !anyContainerStarted(s.ContainerStatuses):
		c.Status, c.Reason = v1.ConditionFalse, reasonNotInitialized
		c.Message = fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(incomplete, " "))
	}
	return c
}

// anyContainerStarted tells whether an app container has run: the Pod has been initialised,
// whatever became of its init containers' records.
func anyContainerStarted(list []v1.ContainerStatus) bool {
	return slices.ContainsFunc(list, func(st v1.ContainerStatus) bool {
		ended := st.State.Terminated
		return st.State.Running != nil || st.LastTerminationState.Terminated != nil ||
			ended != nil && ended.Reason != StatusUnknown
	})
}

func containersReady(in In, s v1.PodStatus, phase v1.PodPhase) v1.PodCondition {
	c := v1.PodCondition{Type: v1.ContainersReady, Status: v1.ConditionFalse}
	var unready []string
	for _, m := range podplan.Members(in.Pod) {
		var st *v1.ContainerStatus
		switch m.Kind {
		case podplan.Sidecar:
			st = find(s.InitContainerStatuses, m.Name)
		case podplan.App:
			st = find(s.ContainerStatuses, m.Name)
		}
		if st != nil && !st.Ready {
			unready = append(unready, m.Name)
		}
	}
	switch {
	case phase == v1.PodSucceeded:
		c.Reason = reasonCompleted
	case phase == v1.PodFailed:
		c.Reason = reasonFailed
	case len(unready) > 0:
		c.Reason, c.Message = reasonNotReady, fmt.Sprintf("containers with unready status: [%s]",
			strings.Join(unready, " "))
	default:
		c.Status = v1.ConditionTrue
	}
	return c
}

// ready is ContainersReady and every readiness gate; a gate without a condition counts as False.
// The answers of readiness probes are in ContainersReady already: the prober manager keeps what
// they add up to (prober.Manager.Health; upstream's results manager), the Pod's worker reads it
// into In.Health (syncProbes in podworker/health.go), and state makes ContainerStatus.Ready of it.
func ready(in In, containers v1.PodCondition) v1.PodCondition {
	c := containers
	c.Type = v1.PodReady
	if c.Status != v1.ConditionTrue {
		return c
	}
	var missing []string
	for _, g := range in.Pod.Spec.ReadinessGates {
		i := slices.IndexFunc(in.Pod.Status.Conditions,
			func(have v1.PodCondition) bool { return have.Type == g.ConditionType })
		switch {
		case i < 0:
			missing = append(missing, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.",
				string(g.ConditionType)))
		case in.Pod.Status.Conditions[i].Status != v1.ConditionTrue:
			missing = append(missing, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v",
				string(g.ConditionType), in.Pod.Status.Conditions[i].Status))
		}
	}
	if len(missing) > 0 {
		c.Status, c.Reason, c.Message = v1.ConditionFalse, reasonGates, strings.Join(missing, ", ")
	}
	return c
}

// addDisruption marks a Pod that the node itself ended. Like upstream's, the condition comes with
// the terminal phase, not before.
func addDisruption(in In, s *v1.PodStatus) {
	c := withTransitionTime(in, v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, ObservedGeneration: in.Pod.Generation,
		Reason: v1.PodReasonTerminationByKubelet, Message: in.End.Victim,
	})
	s.Conditions = slices.DeleteFunc(s.Conditions, func(old v1.PodCondition) bool { return old.Type == c.Type })
	s.Conditions = append(s.Conditions, c)
}

// resizeConditions are the conditions of a resize that waits or is under way; a Pod that has ended
// has none.
func resizeConditions(in In, phase v1.PodPhase) []v1.PodCondition {
	if pod.IsPhaseTerminal(phase) {
		return nil
	}
	var out []v1.PodCondition
	add := func(t v1.PodConditionType, r *Resize) {
		if r != nil {
			out = append(out, v1.PodCondition{Type: t, Status: v1.ConditionTrue, Reason: r.Reason, Message: r.Message,
				ObservedGeneration: r.Generation})
		}
	}
	add(v1.PodResizePending, in.Resizes.Pending)
	add(v1.PodResizeInProgress, in.Resizes.Running)
	return out
}

// restartingAll tells whether the Pod is being started over by a rule of one of its containers.
func restartingAll(in In, phase v1.PodPhase) v1.PodCondition {
	c := v1.PodCondition{Type: v1.AllContainersRestarting, Status: v1.ConditionFalse}
	switch {
	case phase == v1.PodSucceeded:
		c.Reason = reasonCompleted
	case phase == v1.PodFailed:
		c.Reason = reasonFailed
	case in.End == nil && podplan.RestartingAll(in.Pod, in.Observed):
		c.Status, c.Reason, c.Message = v1.ConditionTrue, "RestartAllContainersStarted",
			"container exited with restart policy rule"
	}
	return c
}
