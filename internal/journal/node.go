package journal

import (
	"fmt"
	"strings"
	"time"
)

// Accepted says that a node's kubelet accepted the Pod.
type Accepted struct {
	Source  string    `json:"source"`           // api, file, http
	Created time.Time `json:"created,omitzero"` // creation time of the object, if it came from an API server
}

// Line prints the source.
func (f Accepted) Line() string { return "received by the kubelet from source " + f.Source }

// Refused says that the kubelet does not admit the Pod.
type Refused struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// StaticPodInvalid is the reason of a manifest of a static Pod that cannot be run.
const StaticPodInvalid = "StaticPodInvalid"

// Line prints reason and message.
func (f Refused) Line() string {
	return fmt.Sprintf("refused by the kubelet: %s: %s", f.Reason, f.Message)
}

// Planned is one decision of podplan: the actions to do now, and when to decide again.
type Planned struct {
	Actions []string  `json:"do,omitempty"`
	WakeAt  time.Time `json:"wake,omitzero"`
}

// Line prints the actions.
func (f Planned) Line() string { return fmt.Sprintf("plan: %v", f.Actions) }

// Called is one call to a runtime, a driver or a plugin, with its duration.
type Called struct {
	Service string `json:"service"`          // CRI, CSI, CNI, device
	Method  string `json:"method"`           // RunPodSandbox, …
	Target  string `json:"target,omitempty"` // container name, image, volume
	Took    Took   `json:"took"`
	Error   string `json:"error,omitempty"`
}

// Line prints the call.
func (f Called) Line() string {
	s := f.Service + " " + f.Method
	if f.Target != "" {
		s += " " + f.Target
	}
	s += " took " + f.Took.String()
	if f.Error != "" {
		s += ": " + f.Error
	}
	return s
}

// Waited says that an operation of the Pod waited for its turn: the kubelet limits how many heavy
// runtime calls run at once.
type Waited struct {
	For  string `json:"for"` // the call that waited
	Took Took   `json:"took"`
}

// Line prints the wait.
func (f Waited) Line() string { return fmt.Sprintf("waited %s for its turn to %s", f.Took, f.For) }

// ContainerStarted says that a container's process runs.
type ContainerStarted struct {
	Container string `json:"container"`
	ID        string `json:"id"`
	Restart   int    `json:"restart"` // 0 for the first start
	Init      bool   `json:"init,omitempty"`
}

// Line prints name and restart count.
func (f ContainerStarted) Line() string {
	if f.Restart == 0 {
		return "container " + f.Container + " started"
	}
	return fmt.Sprintf("container %s started (restart %d)", f.Container, f.Restart)
}

// ContainerExited says that a container's process ended.
type ContainerExited struct {
	Container string `json:"container"`
	ID        string `json:"id"`
	ExitCode  int32  `json:"exitCode"`
	Signal    int32  `json:"signal,omitempty"`
	Reason    string `json:"reason"` // Completed, Error, OOMKilled, …
	Message   string `json:"message,omitempty"`
	Memory    Memory `json:"memory,omitzero"` // of the whole Pod until then
}

// Memory is a Pod's use of memory since its start.
type Memory struct {
	Peak      uint64 `json:"peak,omitempty"`      // bytes
	LimitHits uint64 `json:"limitHits,omitempty"` // times the kernel reclaimed memory to stay below the Pod's limit
	// processes the kernel killed for lack of memory, with cgroup v2
	Kills uint64 `json:"kills,omitempty"`
}

// Line prints the exit.
func (f ContainerExited) Line() string {
	return fmt.Sprintf("container %s exited with code %d (%s)", f.Container, f.ExitCode, f.Reason)
}

// BackingOff says that a retry is delayed.
type BackingOff struct {
	Container string    `json:"container"`
	What      string    `json:"what"` // CrashLoopBackOff, ImagePullBackOff, CreateContainerError, …
	Delay     Took      `json:"delay"`
	Until     time.Time `json:"until"`
	Message   string    `json:"message,omitempty"`
}

// Line prints the delay.
func (f BackingOff) Line() string {
	return fmt.Sprintf("container %s: %s, next try after %s", f.Container, f.What, time.Duration(f.Delay))
}

// Killing says that the kubelet decided to stop a container, or the whole Pod if Container is
// empty.
type Killing struct {
	Container string `json:"container,omitempty"`
	Cause     string `json:"cause"` // deleted, liveness probe failed, deadline exceeded, evicted, …
	Grace     int64  `json:"graceSeconds"`
}

// Line prints cause and grace.
func (f Killing) Line() string {
	subject := "Pod"
	if f.Container != "" {
		subject = "container " + f.Container
	}
	return fmt.Sprintf("stopping %s: %s, grace %ds", subject, f.Cause, f.Grace)
}

// StopStep is one step of stopping a container.
type StopStep struct {
	Container string `json:"container"`
	Step      string `json:"step"` // preStop, TERM, KILL, stopped
	Took      Took   `json:"took,omitempty"`
	Message   string `json:"message,omitempty"`
}

// Line prints the step.
func (f StopStep) Line() string {
	s := fmt.Sprintf("container %s: %s", f.Container, f.Step)
	if f.Message != "" {
		s += ": " + f.Message
	}
	return s
}

// Released says that nothing of the Pod is left on the node.
type Released struct{}

// Line prints the release.
func (Released) Line() string { return "all resources on the node released" }

// Pulling says that an image pull began.
type Pulling struct {
	Image     string `json:"image"`
	Container string `json:"container"`
}

// Line prints the image.
func (f Pulling) Line() string {
	return fmt.Sprintf("pulling image %q for container %s", f.Image, f.Container)
}

// Pulled says that the image is on the node.
type Pulled struct {
	Image   string `json:"image"`
	Bytes   uint64 `json:"bytes,omitempty"`
	Present bool   `json:"present,omitempty"` // it was on the node already
	Took    Took   `json:"took,omitempty"`    // duration of the pull; if Present of the check
}

// Line prints how.
func (f Pulled) Line() string {
	if f.Present {
		return fmt.Sprintf("image %q already present", f.Image)
	}
	return fmt.Sprintf("image %q pulled in %s", f.Image, f.Took)
}

// PullFailed says why an image could not be pulled.
type PullFailed struct {
	Image   string    `json:"image"`
	Reason  string    `json:"reason"` // ErrImagePull, ImagePullBackOff, ErrImageNeverPull, InvalidImageName
	Message string    `json:"message"`
	RetryAt time.Time `json:"retryAt,omitzero"`

	Secrets []PullSecret `json:"secrets,omitempty"` // the Pod's imagePullSecrets
}

// PullSecret is one of a Pod's imagePullSecrets as the kubelet read it, without the credentials.
type PullSecret struct {
	Name  string   `json:"name"`
	Hosts []string `json:"hosts,omitempty"` // registries it has credentials for
	Error string   `json:"error,omitempty"` // it does not exist or cannot be parsed
}

// ImageTags are a repository's tags, journaled when the wanted one was not found.
type ImageTags struct {
	Image string   `json:"image"` // the image that was not found
	Tags  []string `json:"tags"`
}

// Line prints the tags.
func (f ImageTags) Line() string {
	return fmt.Sprintf("the registry answers and has no %s; tags there: %s", f.Image, strings.Join(f.Tags, ", "))
}

// Forwarded says that a port-forward was requested, and where the Pod's processes listened then.
type Forwarded struct {
	Listening []string `json:"listening,omitempty"` // address:port
}

// Line prints the sockets.
func (f Forwarded) Line() string {
	return "ports of the Pod were asked for; its processes listen on " + strings.Join(f.Listening, ", ")
}

// Line prints reason and message.
func (f PullFailed) Line() string {
	return fmt.Sprintf("image %q: %s: %s", f.Image, f.Reason, f.Message)
}

// VolumeReady says that a volume is set up for the containers.
type VolumeReady struct {
	Volume string `json:"volume"`
	Type   string `json:"type"`
	Took   Took   `json:"took"`
}

// Line prints the volume.
func (f VolumeReady) Line() string {
	return fmt.Sprintf("volume %s (%s) ready in %s", f.Volume, f.Type, f.Took)
}

// VolumeWaiting says what a volume waits for.
type VolumeWaiting struct {
	Volume  string `json:"volume"`
	Type    string `json:"type"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
	Took    Took   `json:"took,omitempty"`    // duration of the attempt
	Unmount bool   `json:"unmount,omitempty"` // the volume is being torn down
}

// Line prints the wait.
func (f VolumeWaiting) Line() string {
	return fmt.Sprintf("volume %s (%s) waits: %s", f.Volume, f.Type, f.Message)
}

// Probed is a probe result that changed the container's health, or a failure on the way there.
type Probed struct {
	Container string `json:"container"`
	Probe     string `json:"probe"`  // liveness, readiness, startup
	Result    string `json:"result"` // success, failure, unknown
	Message   string `json:"message,omitempty"`
	Count     int    `json:"count"`     // consecutive results of this kind
	Threshold int    `json:"threshold"` // results needed to change the health
	Took      Took   `json:"took"`
	// how late the probe ran; only on the first late one
	Late Took `json:"late,omitempty"`

	// address:port where the Pod's processes listened, if a connection was refused
	Listening []string `json:"listening,omitempty"`
	// how connecting went where Message does not tell: ProbeConnected, ProbeRefused
	Connection string `json:"connection,omitempty"`
}

// How a probe's connecting went.
const (
	ProbeConnected = "connected"
	ProbeRefused   = "refused"
)

// Line prints the answer.
func (f Probed) Line() string {
	s := fmt.Sprintf("%s probe of %s: %s %d/%d", f.Probe, f.Container, f.Result, f.Count, f.Threshold)
	if f.Message != "" {
		s += ": " + f.Message
	}
	if f.Late > 0 {
		s += fmt.Sprintf(" (asked %s late: the node is busy)", f.Late)
	}
	return s
}

// Resized says that a container, or the Pod as a whole, was resized in place.
type Resized struct {
	Container string `json:"container,omitempty"` // empty for the Pod's cgroup
	To        string `json:"to"`                  // requests and limits as text
}

// Line prints the new size.
func (f Resized) Line() string {
	if f.Container == "" {
		return "the Pod has a new size: " + f.To
	}
	return "container " + f.Container + " has a new size: " + f.To
}

// ConditionChanged is a change of one Pod condition.
type ConditionChanged struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Line prints the condition.
func (f ConditionChanged) Line() string {
	s := f.Type + "=" + f.Status
	if f.Reason != "" {
		s += " (" + f.Reason + ")"
	}
	if f.Message != "" {
		s += ": " + f.Message
	}
	return s
}

// PhaseChanged is a change of status.phase.
type PhaseChanged struct {
	Phase   string `json:"phase"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Line prints the phase.
func (f PhaseChanged) Line() string {
	if f.Reason == "" {
		return "phase " + f.Phase
	}
	return fmt.Sprintf("phase %s (%s)", f.Phase, f.Reason)
}

// StatusWritten says that the API server acknowledged the kubelet's status.
type StatusWritten struct {
	Revision int64 `json:"revision,omitempty"`
	Took     Took  `json:"took"` // from the change on the node to the acknowledged write
}

// Line prints the latency.
func (f StatusWritten) Line() string { return "status written after " + f.Took.String() }

// Waiting names a blocker: what a state that is not final waits for, since when, and what happens
// next.
type Waiting struct {
	For   string    `json:"for"`
	Since time.Time `json:"since"`
	Next  string    `json:"next,omitempty"`
	Fix   string    `json:"fix,omitempty"`
}

// Line prints the blocker.
func (f Waiting) Line() string { return "waits for " + f.For }

// Acted is what a controller did to or for the Pod.
type Acted struct {
	Controller string `json:"controller"`
	Action     string `json:"action"`
	Message    string `json:"message,omitempty"`
}

// Line prints controller and action.
func (f Acted) Line() string {
	s := f.Controller + ": " + f.Action
	if f.Message != "" {
		s += ": " + f.Message
	}
	return s
}
