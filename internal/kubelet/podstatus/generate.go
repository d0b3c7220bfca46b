package podstatus

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	kubeletresource "github.com/gantry-project/gantry/internal/kubelet/resource"
	vocab "github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// In is everything a status depends on.
type In struct {
	Pod      *v1.Pod // as the API has it, with its last status
	Observed podplan.Observed
	Facts    podplan.Facts
	End      *podplan.Termination // podplan.EffectiveTermination of the same input
	Health   map[string]podplan.Health
	Waiting  map[string]WaitingReason // by container name: why it does not run
	// by container name: back-offs under way when the node began to end a Pod that nobody deleted
	BackOffs     map[string]WaitingReason
	RunningHooks map[string]bool // containers whose postStart hook has not ended
	Refusal      *reason.Refusal // admission's
	Node         Node
	Now          time.Time
	Resizes      ResizeStatus
	// allocatedResourcesStatus of containers that have devices, by name
	AllocatedResources map[string][]v1.ResourceStatus
	// what CSI drivers say of volumes, by name; nil: they were not asked
	VolumeHealth map[string][]v1.VolumeHealthCondition
	// the runtime can mount for the Pod what is read-only with everything below it
	RecursiveReadOnly bool
}

// ResizeStatus is what is known of resizes.
type ResizeStatus struct {
	Applied podplan.Applied // what runs was really given; the Pod's spec has what was allocated
	Pending *Resize         // a resize that was not granted; nil for none
	Running *Resize         // one that was granted and is not yet in force; nil for none
}

// Resize is the state of a resize: reason and message of its condition, and the generation of the
// spec that asked for it.
type Resize struct {
	Reason, Message string
	Generation      int64
}

// WaitingReason is the reason and message of a waiting container.
type WaitingReason struct{ Reason, Message string }

// Node is what a Pod's status says about its node.
type Node struct {
	HostIPs []string // first is status.hostIP
	Runtime string   // name in container ids, like containerd
	V136    bool     // conditions are those of v1.36
}

// Generate derives the status.
func Generate(in In) v1.PodStatus {
	s := *in.Pod.Status.DeepCopy()
	s.ObservedGeneration = in.Pod.Generation
	s.QOSClass = kubeletresource.QOS(in.Pod)
	if s.StartTime == nil && (!in.Facts.Accepted.IsZero() || in.Refusal != nil) {
		t := in.Now
		if at := in.Facts.Accepted; !at.IsZero() {
			t = at
		}
		s.StartTime = new(metav1.NewTime(t).Rfc3339Copy())
	}
	if in.Refusal != nil {
		return refused(in, s)
	}
	if vocab.IsTerminal(in.Pod) && len(in.Observed.Containers) == 0 {
		return s // ended before it began, or so long ago that nobody knows more
	}
	addresses(in, &s)
	containers(in, &s)
	phase := Phase(in, s)
	shown := holdPhase(in, phase)
	if shown == v1.PodFailed && s.Phase != shown && in.End != nil && in.End.Reason != "" {
		s.Reason, s.Message = in.End.Reason, in.End.Message
	}
	victim := vocab.IsPhaseTerminal(shown) && s.Phase != shown && in.End != nil &&
		in.End.Victim != ""
	s.Phase = shown
	if !in.Facts.ContainersStopped.IsZero() && noAppContainers(in) {
		// upstream: a Pod stopped before all its containers came to run keeps saying what they
		// waited for
		phase = v1.PodPending
	}
	s.Conditions = conditions(in, s, phase)
	if victim {
		addDisruption(in, &s)
	}
	podResources(in, &s)
	s.VolumeHealth = withVolumeHealth(s.VolumeHealth, in.VolumeHealth, in.Now)
	return s
}

// refused is the status of a Pod that admission did not let in: the refusal and nothing else.
func refused(in In, s v1.PodStatus) v1.PodStatus {
	return v1.PodStatus{
		ObservedGeneration: in.Pod.Generation,
		Phase:              v1.PodFailed,
		Reason:             string(in.Refusal.Code),
		Message:            "Pod was rejected: " + in.Refusal.Detail,
		QOSClass:           s.QOSClass,
		StartTime:          s.StartTime,
	}
}

// Phase derives the phase, whether or not it may be shown yet.
// https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-phase
func Phase(in In, s v1.PodStatus) v1.PodPhase {
	if vocab.IsTerminal(in.Pod) {
		return in.Pod.Status.Phase // terminal phases stay
	}
	outcome, done := podplan.Outcome(in.Pod, in.Observed)
	switch {
	case in.End != nil && in.End.Reason == podplan.DeadlineReason:
		return v1.PodFailed
	case done && sidecarRuns(in) && appMade(in):
		return v1.PodRunning
	case done:
		return outcome
	case !in.Facts.ContainersStopped.IsZero():
		return stoppedPhase(s)
	}
	if sandbox := in.Observed.Sandbox(); sandbox == nil || !initialized(in, sandbox.ID) {
		if sandbox == nil && len(in.Observed.Containers) > 0 && in.Pod.Status.Phase != "" {
			return in.Pod.Status.Phase
		}
		return v1.PodPending
	}
	if sidecarAwaited(in) {
		return v1.PodPending
	}
	for _, c := range s.ContainerStatuses {
		if c.State.Waiting != nil && c.LastTerminationState.Terminated == nil {
			return v1.PodPending
		}
	}
	return v1.PodRunning
}

// sidecarAwaited tells whether a sidecar is the last that runs in a sandbox without app containers:
// also a Pod that has run before begins again. So does upstream, where a sidecar has started only
// in the status after the one that shows it running, and by then the next container runs too.
func sidecarAwaited(in In) bool {
	sandbox, awaited := in.Observed.Sandbox(), false
	for _, m := range podplan.Members(in.Pod) {
		c := in.Observed.In(sandbox.ID, m.Name)
		switch {
		case c == nil || c.State == podplan.Created || m.Kind == podplan.Ephemeral:
		case m.Kind == podplan.App:
			return false
		default:
			awaited = m.Kind == podplan.Sidecar && c.State == podplan.Running
		}
	}
	return awaited
}

func sidecarRuns(in In) bool {
	for _, m := range podplan.Members(in.Pod) {
		if c := in.Observed.Latest(m.Name); m.Kind == podplan.Sidecar && c != nil && c.State == podplan.Running {
			return true
		}
	}
	return false
}

// appMade tells whether an app container was made: else the init containers decide, and sidecars do
// not count.
func appMade(in In) bool {
	return slices.ContainsFunc(podplan.Members(in.Pod),
		func(m podplan.Member) bool { return m.Kind == podplan.App && in.Observed.Latest(m.Name) != nil })
}

// noAppContainers tells whether an app container has no record, of a Pod that did not fail by
// itself.
func noAppContainers(in In) bool {
	if _, done := podplan.Outcome(in.Pod, in.Observed); done || in.End != nil && in.End.Reason != "" {
		return false
	}
	for _, m := range podplan.Members(in.Pod) {
		if m.Kind == podplan.App && in.lastStarted(m.Name) == nil {
			return true
		}
	}
	return false
}

// initialized tells whether the Pod's init containers are behind it: a Pod whose app containers
// have run and whose sandbox is being replaced counts as it did before until an init container runs
// again.
func initialized(in In, sandbox string) bool {
	if podplan.Initialized(in.Pod, in.Observed, sandbox, in.Health) {
		return true
	}
	anyStarted := false
	for _, m := range podplan.Members(in.Pod) {
		switch c := in.Observed.Latest(m.Name); {
		case c == nil:
		case m.Kind == podplan.App:
			anyStarted = true
		case m.Kind == podplan.Init && c.Sandbox == sandbox: // one that has ended, also with an error, counts upstream
			if c.State != podplan.Exited {
				return false
			}
		case c.Exit.Reason == restartingAllContainers: // the Pod starts over, and this one has not yet
		case m.Kind == podplan.Init && (c.State != podplan.Exited || c.Exit.Code != 0):
			return false
		}
	}
	return anyStarted
}

// stoppedPhase is the phase of a Pod that was stopped: Succeeded if every app container ended with
// 0.
func stoppedPhase(s v1.PodStatus) v1.PodPhase {
	for _, c := range s.ContainerStatuses {
		if t := c.State.Terminated; t == nil || t.ExitCode != 0 {
			return v1.PodFailed
		}
	}
	return v1.PodSucceeded
}

// holdPhase keeps the phase from becoming terminal while something of the Pod may still run.
func holdPhase(in In, phase v1.PodPhase) v1.PodPhase {
	if vocab.IsPhaseTerminal(phase) && in.Facts.ContainersStopped.IsZero() {
		if in.Pod.Status.Phase == "" {
			return v1.PodPending
		}
		if in.Pod.Status.Phase == v1.PodPending && anyAppStarted(in) {
			return v1.PodRunning
		}
		return in.Pod.Status.Phase
	}
	return phase
}

// anyAppStarted tells whether an app container has run.
func anyAppStarted(in In) bool {
	for _, m := range podplan.Members(in.Pod) {
		if c := in.Observed.Latest(m.Name); m.Kind == podplan.App && c != nil && !c.Started.IsZero() {
			return true
		}
	}
	return false
}

func addresses(in In, s *v1.PodStatus) {
	if len(in.Node.HostIPs) > 0 {
		s.HostIP, s.HostIPs = in.Node.HostIPs[0], nil
		for _, ip := range in.Node.HostIPs {
			s.HostIPs = append(s.HostIPs, v1.HostIP{IP: ip})
		}
	}
	var ips []string
	if in.Pod.Spec.HostNetwork {
		ips = in.Node.HostIPs
	} else if sandbox := in.Observed.Sandbox(); sandbox != nil && sandbox.Ready && hasRunOrFailed(in) {
		ips = sandbox.IPs
	}
	if len(ips) == 0 {
		return
	}
	s.PodIP, s.PodIPs = ips[0], nil
	for _, ip := range ips {
		s.PodIPs = append(s.PodIPs, v1.PodIP{IP: ip})
	}
}

// hasRunOrFailed tells whether a container has been shown to run or to fail: before, upstream does
// not name the Pod's address.
func hasRunOrFailed(in In) bool {
	return len(in.Waiting) > 0 || slices.ContainsFunc(podplan.Members(in.Pod),
		func(m podplan.Member) bool { return in.lastStarted(m.Name) != nil })
}

// podResources shows what the Pod as a whole was given: all of it as allocated; as resources what
// it asks for, and once something of it has ended or was resized, what its cgroup holds. So does
// upstream, which reads the cgroup with the first change after the start.
func podResources(in In, s *v1.PodStatus) {
	requests := resource.PodRequests(in.Pod, resource.PodResourcesOptions{ExcludeOverhead: true})
	s.Resources = &v1.ResourceRequirements{}
	s.AllocatedResources = nil
	if len(requests) > 0 {
		s.AllocatedResources = requests
	}
	real := in.Resizes.Applied.ApplyTo(in.Pod)
	s.Resources.Requests = resource.PodRequests(real, resource.PodResourcesOptions{ExcludeOverhead: true})
	s.Resources.Limits = resource.PodLimits(real, resource.PodResourcesOptions{ExcludeOverhead: true})
	if in.End != nil || slices.ContainsFunc(in.Observed.Containers,
		func(c podplan.Container) bool { return c.State == podplan.Exited }) {
		s.Resources.Requests, s.Resources.Limits = cgroupResources(s.Resources.Requests),
			cgroupResources(s.Resources.Limits)
		if !vocab.HasLimit(in.Pod, v1.ResourceMemory) {
			delete(s.Resources.Limits, v1.ResourceMemory) // a container without one leaves the Pod's cgroup without one
		}
		if len(s.Resources.Limits) == 0 {
			s.Resources.Limits = nil
		}
	}
}

// cgroupResources are those resources that cgroups account for: CPU, memory and huge pages; nil
// when there are none.
func cgroupResources(all v1.ResourceList) v1.ResourceList {
	var out v1.ResourceList
	for name, q := range all {
		if name != v1.ResourceCPU && name != v1.ResourceMemory && !strings.HasPrefix(string(name),
			v1.ResourceHugePagesPrefix) {
			continue
		}
		if out == nil {
			out = v1.ResourceList{}
		}
		out[name] = q.DeepCopy()
	}
	return out
}
