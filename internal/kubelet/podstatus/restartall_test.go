package podstatus_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
)

// Between two rounds of RestartAllContainers every container waits and counts the start to come, as
// v1.37.2 has it; the Pod goes on from there as one that runs.
func TestBetweenRoundsOfRestartAllContainers(t *testing.T) {
	never := v1.ContainerRestartPolicyNever
	p := testPod("watcher", "worker")
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	p.Spec.InitContainers = []v1.Container{{Name: "setup", Image: "img"}}
	p.Generation = 3
	p.Spec.Containers[0].RestartPolicy = &never
	p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
		Action: v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn,
			Values: []int32{42}},
	}}
	in := running(p)
	sandbox := in.Observed.Sandboxes
	in.Observed.Containers = append(in.Observed.Containers, podplan.Container{
		ID: "id-setup", Name: "setup", Sandbox: "s", State: podplan.Exited, Exit: podplan.Exit{Reason: "Completed"},
	})
	p.Status = podstatus.Generate(in)
	next := func(seen podplan.Observed) v1.PodStatus {
		in.Observed = podstatus.MergeKnown(seen, p.Status)
		p.Status = podstatus.Generate(in)
		return p.Status
	}

	in.Observed.Containers[0].State, in.Observed.Containers[0].Exit.Code = podplan.Exited, 42
	if s := next(in.Observed); s.ContainerStatuses[0].State.Terminated == nil ||
		s.InitContainerStatuses[0].State.Terminated == nil ||
		condition(s, v1.AllContainersRestarting).Status != v1.ConditionTrue {
		t.Fatalf("after the exit the containers are shown as they are, want their ends: %+v", s)
	}
	for round, want := range []string{"RestartingAllContainers", "PodInitializing"} {
		s := next(podplan.Observed{Sandboxes: sandbox}) // all records went
		for _, c := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
			last := c.LastTerminationState.Terminated
			if c.State.Waiting == nil || c.State.Waiting.Reason != want || c.RestartCount != 1 ||
				c.Ready != (round == 0 && c.Name == "setup") ||
				last == nil || last.Reason != "RestartingAllContainers" || last.ExitCode != 137 ||
				last.Message != "The container is removed because RestartAllContainers in place" {
				t.Errorf("round %d, %s: %+v, want waiting %s, count 1, last RestartingAllContainers 137", round, c.Name,
					c, want)
			}
		}
		if got := condition(s, v1.AllContainersRestarting).ObservedGeneration; got != 0 {
			t.Errorf("round %d: AllContainersRestarting has observedGeneration %d, want none, as upstream", round, got)
		}
		if got := condition(s, v1.AllContainersRestarting).Status; got != v1.ConditionFalse ||
			s.Phase != v1.PodRunning ||
			condition(s, v1.PodInitialized).Status != v1.ConditionTrue {
			t.Errorf("round %d: phase %s, restarting %s, conditions %+v; want Running, False, Initialized", round,
				s.Phase, got, s.Conditions)
		}
		if _, restartingAll := podplan.Outcome(p, in.Observed); restartingAll {
			t.Errorf("round %d: the Pod is over, want that it goes on", round)
		}
		for _, c := range in.Observed.Containers {
			if c.Attempt+1 != 1 {
				t.Errorf("round %d: the next start of %s is number %d, want 1", round, c.Name, c.Attempt+1)
			}
		}
	}
}

// The resources of a container are those of its spec, empty ones shown as such; what has no record
// has none.
func TestResourcesOfContainersWithoutLimits(t *testing.T) {
	p := testPod("both", "limited", "none", "requested", "waiting")
	cpu := v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}
	p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: cpu, Limits: cpu}
	p.Spec.Containers[1].Resources.Limits = cpu
	p.Spec.Containers[3].Resources.Requests = cpu
	in := running(p)
	in.Observed.Containers = in.Observed.Containers[:4]
	for i := range in.Observed.Containers {
		for _, state := range []podplan.State{podplan.Running, podplan.Exited} {
			in.Observed.Containers[i].State = state
			s := podstatus.Generate(in)
			for j, want := range []struct{ requests, limits bool }{{true, true}, {false, true}, {false, false},
				{true, false}} {
				c := s.ContainerStatuses[j]
				if c.Resources == nil || (c.Resources.Requests != nil) != want.requests ||
					(c.Resources.Limits != nil) != want.limits ||
					(c.AllocatedResources != nil) != want.requests {
					t.Errorf("%s: resources %+v, allocated %v; want requests %t, limits %t", c.Name, c.Resources,
						c.AllocatedResources, want.requests, want.limits)
				}
			}
			if c := s.ContainerStatuses[4]; c.Resources != nil || c.AllocatedResources != nil {
				t.Errorf("a container that never started has resources %+v, allocated %v; want none", c.Resources,
					c.AllocatedResources)
			}
		}
	}
}
