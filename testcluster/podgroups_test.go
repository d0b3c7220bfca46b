package testcluster_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/features"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/testcluster"
)

// With the gate the scheduler of a test cluster schedules Pods of a PodGroup together: a member
// waits while another has a scheduling gate, and both are bound when the gate is gone.
func TestPodGroupsAreScheduledTogether(t *testing.T) {
	c := testcluster.Start(t, testcluster.WithFeatures(features.Features{GenericWorkload: true}),
		testcluster.WithNodes("n1"))
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "g"}}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}
	if _, err := c.Client.SchedulingV1beta1().PodGroups("default").Create(t.Context(), group,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := c.Client.CoreV1().Pods("default")
	for _, name := range []string{"gated", "free"} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{
			SchedulingGroup: &v1.PodSchedulingGroup{PodGroupName: &group.Name},
			Containers:      []v1.Container{{Name: "c", Image: "app"}}}}
		if name == "gated" {
			p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/quota"}}
		}
		if _, err := pods.Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	until := func(what string, holds func(*v1.Pod) bool) {
		t.Helper()
		expect.Eventually(t, "the Pod without a gate is "+what, func() bool {
			p, err := pods.Get(t.Context(), "free", metav1.GetOptions{})
			return err == nil && holds(p)
		})
	}
	until("unschedulable", func(p *v1.Pod) bool {
		for _, s := range p.Status.Conditions {
			if s.Type == v1.PodScheduled && s.Reason == v1.PodReasonUnschedulable {
				return p.Spec.NodeName == ""
			}
		}
		return false
	})
	gated, err := pods.Get(t.Context(), "gated", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	gated.Spec.SchedulingGates = nil
	if _, err := pods.Update(t.Context(), gated, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	until("bound", func(p *v1.Pod) bool { return p.Spec.NodeName == "n1" })
}
