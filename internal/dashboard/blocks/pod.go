package blocks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// State is how a Pod is, in one word.
type State string

// The states.
const (
	Unscheduled State = "unscheduled" // no node yet
	Starting    State = "starting"    // on a node, containers not all started
	NotReady    State = "notready"    // all run, not ready
	Ready       State = "ready"
	Failing     State = "failing" // an image, configuration or container fails again and again
	Ending      State = "ending"  // deleted, not gone
	Succeeded   State = "succeeded"
	Failed      State = "failed"
	Unknown     State = "unknown" // its node is silent
)

// Pod is one Pod as the page draws it. CPU is in milli-cores, memory in bytes.
type Pod struct {
	UID       string    `json:"u"`
	Namespace string    `json:"ns"`
	Name      string    `json:"n"`
	Node      string    `json:"node,omitempty"`
	State     State     `json:"s"`
	WaitsFor  string    `json:"w,omitempty"`
	Since     time.Time `json:"t,omitzero"` // of WaitsFor, else the creation
	CPU       int64     `json:"c"`
	Memory    int64     `json:"m"`
	Restarts  int32     `json:"r,omitempty"`
	Owner     string    `json:"o,omitempty"` // kind/name of its controller
}

// OfPod makes the block of a Pod.
func OfPod(p *corev1.Pod) Pod {
	asks := pod.Requests(p)
	out := Pod{UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName,
		CPU: asks.Cpu().MilliValue(), Memory: asks.Memory().Value(), Since: p.CreationTimestamp.Time}
	for _, s := range statuses(p) {
		out.Restarts += s.RestartCount
	}
	if o := metav1.GetControllerOf(p); o != nil {
		out.Owner = strings.ToLower(o.Kind) + "/" + o.Name
	}
	for _, row := range states {
		if wait, since, ok := row.is(p); ok {
			out.State, out.WaitsFor = row.state, wait
			if !since.IsZero() {
				out.Since = since
			}
			break
		}
	}
	return out
}

// states in the order they are asked; the first that holds is the Pod's.
var states = []struct {
	state State
	is    func(*corev1.Pod) (waitsFor string, since time.Time, ok bool)
}{
	{Succeeded, phase(corev1.PodSucceeded)},
	{Failed, phase(corev1.PodFailed)},
	{Ending, ending},
	{Unknown, nodeLost},
	{Unscheduled, unscheduled},
	{Failing, failing},
	{Ready, ready},
	{Starting, starting},
	{NotReady, notReady},
}

func phase(want corev1.PodPhase) func(*corev1.Pod) (string, time.Time, bool) {
	return func(p *corev1.Pod) (string, time.Time, bool) {
		wait := ""
		if want == corev1.PodFailed {
			wait = join(p.Status.Reason, p.Status.Message)
		}
		return wait, time.Time{}, p.Status.Phase == want
	}
}

func ending(p *corev1.Pod) (string, time.Time, bool) {
	if p.DeletionTimestamp == nil {
		return "", time.Time{}, false
	}
	grace := int64(0)
	if p.DeletionGracePeriodSeconds != nil {
		grace = *p.DeletionGracePeriodSeconds
	}
	wait := fmt.Sprintf("its containers stop, %d s at most", grace)
	if len(p.Finalizers) > 0 {
		wait = "finalizers " + strings.Join(p.Finalizers, ", ")
	}
	return wait, p.DeletionTimestamp.Add(-time.Duration(grace) * time.Second), true
}

func nodeLost(p *corev1.Pod) (string, time.Time, bool) {
	c := pod.Condition(p, corev1.PodReady)
	lost := p.Status.Reason == "NodeLost" || c != nil && c.Status != corev1.ConditionTrue &&
		c.Reason == "NodeStatusUnknown" || p.Status.Phase == corev1.PodUnknown
	return "a word of node " + p.Spec.NodeName, time.Time{}, lost
}

func unscheduled(p *corev1.Pod) (string, time.Time, bool) {
	if p.Spec.NodeName != "" {
		return "", time.Time{}, false
	}
	if len(p.Spec.SchedulingGates) > 0 {
		var names []string
		for _, g := range p.Spec.SchedulingGates {
			names = append(names, g.Name)
		}
		return "scheduling gates " + strings.Join(names, ", "), time.Time{}, true
	}
	if c := pod.Condition(p, corev1.PodScheduled); c != nil && c.Message != "" {
		return c.Message, c.LastTransitionTime.Time, true
	}
	return "the scheduler " + p.Spec.SchedulerName, time.Time{}, true
}

// normalWaitingReasons are the reasons for which a container waits while nothing failed.
var normalWaitingReasons = []string{"ContainerCreating", "PodInitializing", ""}

func failing(p *corev1.Pod) (string, time.Time, bool) {
	for _, s := range statuses(p) {
		if w := s.State.Waiting; w != nil && !slices.Contains(normalWaitingReasons, w.Reason) {
			return "container " + s.Name + ": " + join(w.Reason, w.Message), time.Time{}, true
		}
		if t := s.State.Terminated; t != nil && t.ExitCode != 0 && p.Status.Phase != corev1.PodPending {
			return fmt.Sprintf("container %s: it exited with %d (%s)", s.Name, t.ExitCode, t.Reason), t.FinishedAt.Time,
				true
		}
	}
	return "", time.Time{}, false
}

func ready(p *corev1.Pod) (string, time.Time, bool) {
	c := pod.Condition(p, corev1.PodReady)
	if c == nil || c.Status != corev1.ConditionTrue {
		return "", time.Time{}, false
	}
	return "", c.LastTransitionTime.Time, true
}

func starting(p *corev1.Pod) (string, time.Time, bool) {
	if p.Status.Phase != corev1.PodPending {
		return "", time.Time{}, false
	}
	for i, s := range p.Status.InitContainerStatuses {
		sidecar := i < len(p.Spec.InitContainers) && pod.IsSidecar(&p.Spec.InitContainers[i])
		switch begun := s.Started != nil && *s.Started; {
		case s.State.Running == nil || sidecar && begun:
		case sidecar:
			return "sidecar " + s.Name + " starts", s.State.Running.StartedAt.Time, true
		default:
			return "init container " + s.Name + " runs", s.State.Running.StartedAt.Time, true
		}
	}
	for _, s := range statuses(p) {
		if w := s.State.Waiting; w != nil && w.Message != "" {
			return "container " + s.Name + ": " + w.Message, time.Time{}, true
		}
	}
	if c := pod.Condition(p, corev1.PodReadyToStartContainers); c == nil || c.Status != corev1.ConditionTrue {
		return "node " + p.Spec.NodeName + ": sandbox, network and volumes", time.Time{}, true
	}
	return "node " + p.Spec.NodeName + ": images and containers", time.Time{}, true
}

func notReady(p *corev1.Pod) (string, time.Time, bool) {
	c := pod.Condition(p, corev1.PodReady)
	if c == nil {
		return "its first status", time.Time{}, true
	}
	if c.Message != "" {
		return c.Message, c.LastTransitionTime.Time, true
	}
	return "readiness", c.LastTransitionTime.Time, true
}

func statuses(p *corev1.Pod) []corev1.ContainerStatus {
	return append(slices.Clone(p.Status.InitContainerStatuses), p.Status.ContainerStatuses...)
}

// join is reason and message with a colon between them, without what is empty.
func join(reason, message string) string {
	return strings.TrimPrefix(strings.TrimSuffix(reason+": "+message, ": "), ": ")
}
