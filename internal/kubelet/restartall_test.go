package kubelet_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// KEP-5532: a container's end starts the whole Pod over in its sandbox, init containers first; the next time it waits as any crash does.
func TestRestartAllContainers(t *testing.T) {
	in(t, func(r *rig) {
		never := v1.ContainerRestartPolicyNever
		watcher := box("watcher", "sleep 2; exit 42")
		watcher.RestartPolicy = &never
		watcher.RestartPolicyRules = []v1.ContainerRestartRule{{
			Action:    v1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
		}}
		p := pod("job", box("worker", runs), watcher)
		p.Spec.InitContainers = []v1.Container{box("setup", "true")}
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		r.create(p)
		tape := r.tape("default")
		sandbox := r.phase("job", v1.PodRunning).Status.PodIP
		r.pass(3500 * time.Millisecond)
		p = r.phase("job", v1.PodRunning)
		for _, st := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
			if st.RestartCount != 1 || st.LastTerminationState.Terminated == nil {
				t.Errorf("%s: %d restarts, last %+v\n%s", st.Name, st.RestartCount, st.LastTerminationState, r.facts.all())
			}
		}
		if p.Status.PodIP != sandbox || r.fake.Count("RunPodSandbox") != 1 {
			t.Error("the sandbox was not kept")
		}
		if c := condition(p, v1.AllContainersRestarting); c == nil || c.Status != v1.ConditionFalse {
			t.Errorf("%+v", c)
		}
		if said := strings.Join(tape.states(), "\n"); !strings.Contains(said, "AllContainersRestarting=True RestartAllContainersStarted container exited with restart policy rule") {
			t.Error(said)
		}
		r.pass(2 * time.Second) // ended again: everything waits for the back-off
		if n := r.get("job").Status.ContainerStatuses[0].RestartCount; n != 1 {
			t.Errorf("%d restarts without a wait", n)
		}
		r.stop()
		r.start()
		r.pass(15 * time.Second)
		if n := r.get("job").Status.ContainerStatuses[1].RestartCount; n != 2 {
			t.Errorf("%d restarts after the back-off\n%s", n, r.facts.all())
		}
	})
}
