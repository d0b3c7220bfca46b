package nodelifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MonitorGracePeriod is how long a node may not report before it is unreachable (upstream's
// --node-monitor-grace-period).
const MonitorGracePeriod = 50 * time.Second

// startupGracePeriod is how long a node that has never reported may take.
const startupGracePeriod = 60 * time.Second

// NodeHealth is when a node last reported, by our own clock.
type NodeHealth struct {
	ProbeTime    time.Time
	Heartbeat    string // the last Heartbeat.Renewed
	StatusPosted bool   // it has posted a status
}

// Heartbeat is the last report of a node.
type Heartbeat struct {
	Renewed      string    // changes with each report; empty: there was none
	StatusPosted bool      // it has posted a status
	Created      time.Time // creation time of the Node
}

// UpdateHealth returns the updated record: a changed lease or status counts as a report now. A node
// without any report counts from its creation, also for controllers that started later.
func UpdateHealth(h NodeHealth, s Heartbeat, now time.Time) NodeHealth {
	if h.ProbeTime.IsZero() && s.Renewed == "" && !s.StatusPosted && !s.Created.IsZero() && s.Created.Before(now) {
		return NodeHealth{ProbeTime: s.Created}
	}
	if h.ProbeTime.IsZero() || h.Heartbeat != s.Renewed {
		return NodeHealth{ProbeTime: now, Heartbeat: s.Renewed, StatusPosted: s.StatusPosted}
	}
	h.StatusPosted = s.StatusPosted
	return h
}

// IsUnreachable reports whether the node has not reported for grace, usually MonitorGracePeriod,
// and when to check again.
func IsUnreachable(h NodeHealth, grace time.Duration, now time.Time) (bool, time.Duration) {
	if !h.StatusPosted {
		grace = startupGracePeriod
	}
	if left := grace - now.Sub(h.ProbeTime); left > 0 {
		return false, left
	}
	return true, 0
}

var monitoredConditions = []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure,
	corev1.NodeDiskPressure, corev1.NodePIDPressure}

// UnknownConditions returns the conditions of an unreachable node: those it should report become
// Unknown.
func UnknownConditions(n *corev1.Node, now metav1.Time) ([]corev1.NodeCondition, bool) {
	out := append([]corev1.NodeCondition(nil), n.Status.Conditions...)
	changed := false
	for _, typ := range monitoredConditions {
		i := 0
		for i < len(out) && out[i].Type != typ {
			i++
		}
		if i == len(out) {
			out = append(out, corev1.NodeCondition{Type: typ, Status: corev1.ConditionUnknown,
				Reason:  "NodeStatusNeverUpdated",
				Message: "Kubelet never posted node status.", LastHeartbeatTime: n.CreationTimestamp,
				LastTransitionTime: now})
			changed = true
			continue
		}
		if out[i].Status != corev1.ConditionUnknown {
			out[i].Status, out[i].Reason, out[i].Message = corev1.ConditionUnknown, "NodeStatusUnknown",
				"Kubelet stopped posting node status."
			out[i].LastTransitionTime = now
			changed = true
		}
	}
	return out, changed
}

type conditionTaint struct {
	condition corev1.NodeConditionType
	status    corev1.ConditionStatus
	key       string
	execute   bool // NoExecute besides NoSchedule
}

// conditionTaints are the taints of conditions.
var conditionTaints = []conditionTaint{
	{corev1.NodeReady, corev1.ConditionFalse, corev1.TaintNodeNotReady, true},
	{corev1.NodeReady, corev1.ConditionUnknown, corev1.TaintNodeUnreachable, true},
	{corev1.NodeMemoryPressure, corev1.ConditionTrue, corev1.TaintNodeMemoryPressure, false},
	{corev1.NodeDiskPressure, corev1.ConditionTrue, corev1.TaintNodeDiskPressure, false},
	{corev1.NodePIDPressure, corev1.ConditionTrue, corev1.TaintNodePIDPressure, false},
	{corev1.NodeNetworkUnavailable, corev1.ConditionTrue, corev1.TaintNodeNetworkUnavailable, false},
}

// OutOfServiceDrain reports whether the node's conditions demand eviction of its Pods, and whether
// it has a taint that does so already, even of another condition.
func OutOfServiceDrain(n *corev1.Node) (wanted, done bool) {
	status := readiness(n)
	for _, row := range conditionTaints {
		if !row.execute {
			continue
		}
		wanted = wanted || status[row.condition] == row.status
		for _, t := range n.Spec.Taints {
			done = done || t.Key == row.key && t.Effect == corev1.TaintEffectNoExecute
		}
	}
	return wanted, done
}

// readiness returns the status of every condition; Ready is False if the node has not reported.
func readiness(n *corev1.Node) map[corev1.NodeConditionType]corev1.ConditionStatus {
	status := map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionFalse}
	for _, c := range n.Status.Conditions {
		status[c.Type] = c.Status
	}
	return status
}

// Taints returns the node's taints by its conditions and spec.unschedulable, keeping all others.
// Without drive no NoExecute taint is added.
func Taints(n *corev1.Node, now metav1.Time, drive bool) ([]corev1.Taint, bool) {
	wanted := map[corev1.Taint]bool{}
	status := readiness(n)
	for _, row := range conditionTaints {
		on := status[row.condition] == row.status
		wanted[corev1.Taint{Key: row.key, Effect: corev1.TaintEffectNoSchedule}] = on
		if row.execute {
			wanted[corev1.Taint{Key: row.key, Effect: corev1.TaintEffectNoExecute}] = on
		}
	}
	wanted[corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}] =
		n.Spec.Unschedulable

	var out []corev1.Taint
	changed := false
	for _, t := range n.Spec.Taints {
		id := corev1.Taint{Key: t.Key, Effect: t.Effect}
		on, ours := wanted[id]
		if ours && !on {
			changed = true
			continue
		}
		delete(wanted, id)
		out = append(out, t)
	}
	for _, row := range conditionTaints {
		for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
			if id := (corev1.Taint{Key: row.key, Effect: effect}); wanted[id] &&
				(drive || effect != corev1.TaintEffectNoExecute) {
				id.TimeAdded = &now
				out, changed = append(out, id), true
			}
		}
	}
	if id := (corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}); wanted[id] {
		id.TimeAdded = &now
		out, changed = append(out, id), true
	}
	return out, changed
}
