package queue

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// PodSchedulingPropertiesChange lists as events what changed between two versions of a Pod that may
// matter to scheduling, about a resource: AssignedPod, UnscheduledPod or TargetPod. Without an old
// version everything counts as changed.
func PodSchedulingPropertiesChange(about framework.EventResource, old, p *v1.Pod) []framework.ClusterEvent {
	if old == nil {
		return []framework.ClusterEvent{{Resource: about, ActionType: framework.Update}}
	}
	var out []framework.ClusterEvent
	add := func(changed bool, a framework.ActionType) {
		if changed {
			out = append(out, framework.ClusterEvent{Resource: about, ActionType: a})
		}
	}
	add(!maps.Equal(old.Labels, p.Labels), framework.UpdatePodLabel)
	less, more := requestsChange(old, p)
	add(less, framework.UpdatePodScaleDown)
	add(more, framework.UpdatePodScaleUp)
	add(len(old.Spec.Tolerations) != len(p.Spec.Tolerations) || !equality.Semantic.DeepEqual(old.Spec.Tolerations,
		p.Spec.Tolerations), framework.UpdatePodToleration)
	add(len(old.Spec.SchedulingGates) > 0 && len(p.Spec.SchedulingGates) == 0,
		framework.UpdatePodSchedulingGatesEliminated)
	add(!equality.Semantic.DeepEqual(old.Status.ResourceClaimStatuses, p.Status.ResourceClaimStatuses),
		framework.UpdatePodGeneratedResourceClaim)
	return out
}

// requestsChange tells whether some request is smaller and some larger than before; both may be.
func requestsChange(old, p *v1.Pod) (less, more bool) {
	was, is := snapshot.Requests(old), snapshot.Requests(p)
	compare := func(a, b int64) { less, more = less || b < a, more || b > a }
	compare(was.MilliCPU, is.MilliCPU)
	compare(was.Memory, is.Memory)
	compare(was.EphemeralStorage, is.EphemeralStorage)
	for name := range was.Scalar {
		compare(was.Scalar[name], is.Scalar[name])
	}
	for name := range is.Scalar {
		compare(was.Scalar[name], is.Scalar[name])
	}
	return less, more
}

// NodeSchedulingPropertiesChange lists as events what changed between two versions of a Node that
// may matter to scheduling. Heartbeats do not.
func NodeSchedulingPropertiesChange(old, n *v1.Node) []framework.ClusterEvent {
	var out []framework.ClusterEvent
	add := func(changed bool, a framework.ActionType) {
		if changed {
			out = append(out, framework.ClusterEvent{Resource: framework.Node, ActionType: a})
		}
	}
	add(!equality.Semantic.DeepEqual(old.Status.Allocatable, n.Status.Allocatable), framework.UpdateNodeAllocatable)
	add(!maps.Equal(old.Labels, n.Labels), framework.UpdateNodeLabel)
	add(old.Spec.Unschedulable != n.Spec.Unschedulable || !equality.Semantic.DeepEqual(old.Spec.Taints, n.Spec.Taints),
		framework.UpdateNodeTaint)
	add(!maps.Equal(conditions(old), conditions(n)), framework.UpdateNodeCondition)
	add(!maps.Equal(old.Annotations, n.Annotations), framework.UpdateNodeAnnotation)
	add(!equality.Semantic.DeepEqual(old.Status.DeclaredFeatures, n.Status.DeclaredFeatures),
		framework.UpdateNodeDeclaredFeature)
	return out
}

func conditions(n *v1.Node) map[v1.NodeConditionType]v1.ConditionStatus {
	out := make(map[v1.NodeConditionType]v1.ConditionStatus, len(n.Status.Conditions))
	for _, c := range n.Status.Conditions {
		out[c.Type] = c.Status
	}
	return out
}
