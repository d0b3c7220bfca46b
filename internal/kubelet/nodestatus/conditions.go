package nodestatus

import (
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtimeGrace is how long the runtime may fail to answer before the node stops being Ready
// (upstream: maxWaitForContainerRuntime).
const runtimeGrace = 30 * time.Second

// Health is what Ready depends on.
type Health struct {
	// when the runtime was first asked of those times in a row that it did not answer; zero: it
	// answered
	UnansweredSince time.Time
	Runtime         []*runtimeapi.RuntimeCondition // of its last answer; none: it never answered
	Others          []error                        // main loop, container manager, …
}

// notReadyErrors lists why the node is not Ready, with upstream's texts.
func (h Health) notReadyErrors(now time.Time) []error {
	var out []error
	switch {
	case len(h.Runtime) == 0:
		out = append(out, errors.New("container runtime status check may not have completed yet"))
	case !h.UnansweredSince.IsZero() && now.Sub(h.UnansweredSince) > runtimeGrace:
		out = append(out, errors.New("container runtime is down"))
	}
	for _, c := range h.Runtime {
		switch {
		case c.Status:
		case c.Type == runtimeapi.RuntimeReady:
			out = append(out, fmt.Errorf("container runtime not ready: %s", conditionText(c)))
		case c.Type == runtimeapi.NetworkReady:
			out = append(out, fmt.Errorf("container runtime network not ready: %s", conditionText(c)))
		}
	}
	return append(out, h.Others...)
}

// ok says that the runtime answers, and that it and its network are ready.
func (h Health) ok() bool {
	for _, c := range h.Runtime {
		if !c.Status && (c.Type == runtimeapi.RuntimeReady || c.Type == runtimeapi.NetworkReady) {
			return false
		}
	}
	return h.UnansweredSince.IsZero() && len(h.Runtime) > 0
}

func conditionText(c *runtimeapi.RuntimeCondition) string {
	return fmt.Sprintf("%s=%t reason:%s message:%s", c.Type, c.Status, c.Reason, c.Message)
}

func setReady(s *v1.NodeStatus, f Facts) {
	problems := f.Health.notReadyErrors(f.Now)
	var missing []string
	for _, r := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods,
		v1.ResourceEphemeralStorage} {
		if _, ok := s.Capacity[r]; !ok {
			missing = append(missing, string(r))
		}
	}
	if len(missing) > 0 {
		problems = append(problems, fmt.Errorf("missing node capacity for resources: %s", strings.Join(missing, ", ")))
	}
	c := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady",
		Message: "kubelet is posting ready status"}
	if len(problems) > 0 {
		c.Status, c.Reason, c.Message = v1.ConditionFalse, "KubeletNotReady", utilerrors.NewAggregate(problems).Error()
	}
	setCondition(s, f.Now, c)
}

func setMemoryPressure(s *v1.NodeStatus, f Facts) {
	setPressure(s, f.Now, f.Pressure.Memory, pressure{
		v1.NodeMemoryPressure,
		texts{"KubeletHasInsufficientMemory", "kubelet has insufficient memory available"},
		texts{"KubeletHasSufficientMemory", "kubelet has sufficient memory available"},
	})
}

func setDiskPressure(s *v1.NodeStatus, f Facts) {
	setPressure(s, f.Now, f.Pressure.Disk, pressure{
		v1.NodeDiskPressure,
		texts{"KubeletHasDiskPressure", "kubelet has disk pressure"},
		texts{"KubeletHasNoDiskPressure", "kubelet has no disk pressure"},
	})
}

func setPIDPressure(s *v1.NodeStatus, f Facts) {
	setPressure(s, f.Now, f.Pressure.PID, pressure{
		v1.NodePIDPressure,
		texts{"KubeletHasInsufficientPID", "kubelet has insufficient PID available"},
		texts{"KubeletHasSufficientPID", "kubelet has sufficient PID available"},
	})
}

type texts struct{ reason, message string }

// pressure is one of the three conditions with what it says when it is true and when it is not.
type pressure struct {
	kind                v1.NodeConditionType
	whenTrue, whenFalse texts
}

func setPressure(s *v1.NodeStatus, now time.Time, underPressure bool, p pressure) {
	c := v1.NodeCondition{Type: p.kind, Status: v1.ConditionFalse, Reason: p.whenFalse.reason,
		Message: p.whenFalse.message}
	if underPressure {
		c.Status, c.Reason, c.Message = v1.ConditionTrue, p.whenTrue.reason, p.whenTrue.message
	}
	setCondition(s, now, c)
}

// setCondition puts c in, with the heartbeat of now and the transition of its last change of
// status.
func setCondition(s *v1.NodeStatus, now time.Time, c v1.NodeCondition) {
	t := metav1.NewTime(now)
	c.LastHeartbeatTime, c.LastTransitionTime = t, t
	for i := range s.Conditions {
		if s.Conditions[i].Type == c.Type {
			if s.Conditions[i].Status == c.Status {
				c.LastTransitionTime = s.Conditions[i].LastTransitionTime
			}
			s.Conditions[i] = c
			return
		}
	}
	s.Conditions = append(s.Conditions, c)
}

// changed says whether b tells something a does not, heartbeat times apart.
func changed(a, b v1.NodeStatus) bool {
	plain := func(s v1.NodeStatus) *v1.NodeStatus {
		c := s.DeepCopy()
		for i := range c.Conditions {
			c.Conditions[i].LastHeartbeatTime = metav1.Time{}
		}
		return c
	}
	return !equal(plain(a), plain(b))
}
