package queue_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/scheduler/queue"
)

// actions are the events' actions; each must be about the resource.
func actions(t *testing.T, about framework.EventResource, events []framework.ClusterEvent) framework.ActionType {
	t.Helper()
	var out framework.ActionType
	for _, e := range events {
		if e.Resource != about {
			t.Errorf("got an event about %s, want %s", e.Resource, about)
		}
		out |= e.ActionType
	}
	return out
}

// row: SCH-30
func TestPodUpdatesThatMatterToScheduling(t *testing.T) {
	requesting := func(name v1.ResourceName, q string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{name: resource.MustParse(q)}}}}
		}
	}
	tolerating := func(key ...string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			for _, k := range key {
				p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: k})
			}
		}
	}
	gated := func(n int) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.SchedulingGates = make([]v1.PodSchedulingGate, n) }
	}
	claimed := func(p *v1.Pod) {
		p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: ptr.To("x")}}
	}
	none := func(*v1.Pod) {}
	for _, c := range []struct {
		name    string
		was, is func(*v1.Pod)
		want    framework.ActionType
	}{
		{"nothing", none, none, 0},
		{"annotations", none, func(p *v1.Pod) { p.Annotations = map[string]string{"a": "b"} }, 0},
		{"a label", none, func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} }, framework.UpdatePodLabel},
		{"less CPU", requesting("cpu", "2"), requesting("cpu", "1"), framework.UpdatePodScaleDown},
		{"more CPU", requesting("cpu", "1"), requesting("cpu", "2"), framework.UpdatePodScaleUp},
		{"less memory", requesting("memory", "2"), requesting("memory", "1"), framework.UpdatePodScaleDown},
		{"more memory", requesting("memory", "1"), requesting("memory", "2"), framework.UpdatePodScaleUp},
		{"less storage", requesting("ephemeral-storage", "2"), requesting("ephemeral-storage", "1"),
			framework.UpdatePodScaleDown},
		{"less of a device", requesting("x.org/d", "2"), requesting("x.org/d", "1"), framework.UpdatePodScaleDown},
		{"another device", requesting("x.org/d", "2"), requesting("x.org/e", "2"),
			framework.UpdatePodScaleDown | framework.UpdatePodScaleUp},
		{"CPU for memory", requesting("cpu", "2"), requesting("memory", "2"),
			framework.UpdatePodScaleDown | framework.UpdatePodScaleUp},
		{"a toleration more", tolerating("a"), tolerating("a", "b"), framework.UpdatePodToleration},
		{"another toleration", tolerating("a"), tolerating("b"), framework.UpdatePodToleration},
		{"the last gate", gated(1), gated(0), framework.UpdatePodSchedulingGatesEliminated},
		{"one of two gates", gated(2), gated(1), 0},
		{"a gate comes", gated(0), gated(1), 0},
		{"its claim is made", none, claimed, framework.UpdatePodGeneratedResourceClaim},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := actions(t, framework.TargetPod,
				queue.PodSchedulingPropertiesChange(framework.TargetPod, pod("p", 0, c.was), pod("p", 0, c.is)))
			if got != c.want {
				t.Errorf("got %b, want %b", got, c.want)
			}
		})
	}
	all := queue.PodSchedulingPropertiesChange(framework.AssignedPod, nil, pod("p", 0))
	if got := actions(t, framework.AssignedPod, all); got != framework.Update {
		t.Errorf("without an old version got %b, want %b", got, framework.Update)
	}
}

// row: SCH-30
func TestNodeUpdatesThatMatterToScheduling(t *testing.T) {
	ready := func(s v1.ConditionStatus, beat int64) func(*v1.Node) {
		return func(n *v1.Node) {
			n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: s,
				LastHeartbeatTime: metav1.Unix(beat, 0)}}
		}
	}
	none := func(*v1.Node) {}
	for _, c := range []struct {
		name    string
		was, is func(*v1.Node)
		want    framework.ActionType
	}{
		{"nothing", none, none, 0},
		{"a heartbeat", ready(v1.ConditionTrue, 1), ready(v1.ConditionTrue, 2), 0},
		{"a condition", ready(v1.ConditionTrue, 1), ready(v1.ConditionFalse, 1), framework.UpdateNodeCondition},
		{"a new condition", none, ready(v1.ConditionTrue, 1), framework.UpdateNodeCondition},
		{"room", none, func(n *v1.Node) {
			n.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("1")}
		}, framework.UpdateNodeAllocatable},
		{"a label", none, func(n *v1.Node) { n.Labels = map[string]string{"a": "b"} }, framework.UpdateNodeLabel},
		{"a taint", none, func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "a"}} }, framework.UpdateNodeTaint},
		{"a cordon", none, func(n *v1.Node) { n.Spec.Unschedulable = true }, framework.UpdateNodeTaint},
		{"an annotation", none, func(n *v1.Node) { n.Annotations = map[string]string{"a": "b"} },
			framework.UpdateNodeAnnotation},
		{"a feature", none, func(n *v1.Node) { n.Status.DeclaredFeatures = []string{"F"} },
			framework.UpdateNodeDeclaredFeature},
	} {
		t.Run(c.name, func(t *testing.T) {
			var was, is v1.Node
			c.was(&was)
			c.is(&is)
			if got := actions(t, framework.Node, queue.NodeSchedulingPropertiesChange(&was, &is)); got != c.want {
				t.Errorf("got %s, want %s", fmt.Sprintf("%b", got), fmt.Sprintf("%b", c.want))
			}
		})
	}
}
