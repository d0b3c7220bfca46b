package scheduler

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

func TestMessagesOfEmulatedVersions(t *testing.T) {
	plain, claiming := &v1.Pod{}, &v1.Pod{Spec: v1.PodSpec{ResourceClaims: []v1.PodResourceClaim{{Name: "gpu"}}}}
	refused := func(plugin string, words ...string) *framework.Status {
		return framework.NewStatus(framework.Unschedulable, words...).WithPlugin(plugin)
	}
	found := framework.NewStatus(framework.Success,
		"preemption: found a potential placement for pod on node a, preempting 1 victims")
	for name, c := range map[string]struct {
		pod       *v1.Pod
		status    *framework.Status
		v136, now string
	}{
		"nothing helps": {plain, refused("DynamicResources", "preemption: none"),
			"no new claims to deallocate, preemption: none", "preemption: none"},
		"nothing is tried": {plain, refused("DynamicResources"), "no new claims to deallocate", ""},
		"claims do not help": {claiming, refused("DynamicResources", "preemption: none"),
			"still not schedulable, preemption: none", "preemption: none"},
		"without devices": {plain, refused("DefaultPreemption", "preemption: none"), "preemption: none",
			"preemption: none"},
		"victims are found": {plain, found, "", found.Message()},
		"a plugin that fails is reported": {plain,
			framework.NewStatus(framework.Error, "broken").WithPlugin("DynamicResources"), "broken", "broken"},
	} {
		if got := unresolvableMessage(true, c.pod, c.status); got != c.v136 {
			t.Errorf("%s, v1.36: got %q, want %q", name, got, c.v136)
		}
		if got := unresolvableMessage(false, c.pod, c.status); got != c.now {
			t.Errorf("%s: got %q, want %q", name, got, c.now)
		}
	}
}
