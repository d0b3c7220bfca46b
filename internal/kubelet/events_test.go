package kubelet_test

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/kubelet"
)

// A container that dies is seen by the runtime's event and started again by its Pod's policy, long
// before anybody looks by himself.
//
// row: PLG-03
// row: KSL-30
// row: PWK-22
func TestEventOfADeadContainerLeadsToItsRestart(t *testing.T) {
	for policy, restarts := range map[v1.RestartPolicy]int32{v1.RestartPolicyAlways: 1, v1.RestartPolicyOnFailure: 1,
		v1.RestartPolicyNever: 0} {
		t.Run(string(policy), func(t *testing.T) {
			runTest(t, func(r *rig) {
				p := pod("web", scriptContainer("app", "trap 'exit 3' TERM; while true; do sleep 1; done"))
				p.Spec.RestartPolicy = policy
				r.create(p)
				r.advance(5 * time.Minute)
				before := r.phase("web", v1.PodRunning).Status.ContainerStatuses[0].ContainerID
				r.kill("web")
				r.advance(100 * time.Millisecond)
				phase := map[int32]v1.PodPhase{1: v1.PodRunning, 0: v1.PodFailed}[restarts]
				if st := r.phase("web", phase).Status.ContainerStatuses[0]; st.RestartCount != restarts ||
					restarts > 0 && st.State.Running == nil || (st.ContainerID == before) != (restarts == 0) {
					t.Errorf("%+v a moment after %s was killed, want %d restarts", st, before, restarts)
				}
			})
		})
	}
}

// silentRuntime follows events, and none comes.
type silentRuntime struct{ internalapi.RuntimeService }

func (silentRuntime) GetContainerEvents(ctx context.Context, _ chan *runtimeapi.ContainerEventResponse,
	established func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	established(nil)
	<-ctx.Done()
	return ctx.Err()
}

// When every event is lost, what has happened is found by the periodic look, a minute later at
// most.
//
// row: PLG-04
// row: KSL-26
func TestPeriodicLookMakesUpForLostEvents(t *testing.T) {
	runTest(t, func(r *rig) {
		r.stop()
		r.with = func(o *kubelet.Options) { o.Runtime = silentRuntime{o.Runtime} }
		r.start()
		r.create(pod("web", scriptContainer("app", runs)))
		r.create(pod("other", scriptContainer("app", runs)))
		r.advance(4 * time.Minute)
		r.phase("web", v1.PodRunning)
		r.kill("web")
		r.advance(61 * time.Second)
		if st := r.phase("web", v1.PodRunning).Status.ContainerStatuses[0]; st.RestartCount != 1 ||
			st.State.Running == nil {
			t.Errorf("%+v a minute after it was killed, want it restarted", st)
		}
		if st := r.phase("other", v1.PodRunning).Status.ContainerStatuses[0]; st.RestartCount != 0 {
			t.Errorf("another Pod became %+v", st)
		}
	})
}
