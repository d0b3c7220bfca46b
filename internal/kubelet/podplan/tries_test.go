package podplan_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/reason"
)

// A start that has failed for the second time waits ten seconds, unless the health of another
// container changes.
func TestAStartIsTriedAgainWhenTheHealthOfAnotherChanges(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC)
	p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "a"}, {Name: "b"}}}}
	for changed, want := range map[string]int{"": 0, "a": 0, "b": 1} {
		tries := podplan.Tries{"a": {Refusal: &reason.Refusal{Code: reason.CreateContainerConfigError}, Count: 2,
			SeenAt: now.Add(-3 * time.Second), FailedAt: now.Add(-2 * time.Second)}}
		if changed != "" {
			tries.HealthChanged(changed)
		}
		began := now.Add(-time.Minute)
		plan := podplan.Next(podplan.In{Pod: p, Now: now, Tries: tries,
			Facts: podplan.Facts{Accepted: began, VolumesReady: began},
			Observed: podplan.Observed{Sandboxes: []podplan.Sandbox{{ID: "s", Ready: true, Created: began}},
				Containers: []podplan.Container{{ID: "b1", Name: "b", Sandbox: "s", State: podplan.Running,
					Created: began, Started: began, Annotations: podplan.Annotations{Hash: podplan.Hash(
						&p.Spec.Containers[1])}}}},
			Health: map[string]podplan.Health{"b": {Started: true, Ready: true}}})
		if len(plan.Do) != want {
			t.Errorf("the health of %q changes: got %v, want %d starts", changed, plan.Do, want)
		}
	}
}
