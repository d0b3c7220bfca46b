package podactions

import (
	"context"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// removals is a runtime, and the cache of what is seen of it, that note what is taken away.
type removals struct {
	internalapi.RuntimeService
	calls []string
}

func (r *removals) StopPodSandbox(_ context.Context, id string) error {
	r.calls = append(r.calls, "stop "+id)
	return nil
}

func (r *removals) RemovePodSandbox(_ context.Context, id string) error {
	r.calls = append(r.calls, "remove "+id)
	return nil
}

func (r *removals) Forget(ids ...string) { r.calls = append(r.calls, "forget "+strings.Join(ids, " ")) }

// A sandbox that goes is stopped, then removed, then forgotten.
//
// row: CRI-03
func TestRemovalOfASandbox(t *testing.T) {
	var r removals
	call := testOperation(t, &fakePorts{}, testPod(v1.Container{Name: "c"}))
	call.executor.d.Runtime, call.executor.d.RuntimeCache = &r, &r
	if err := call.removeSandbox(t.Context(), podplan.RemoveSandbox{ID: "s"}); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(r.calls, ", "), "stop s, remove s, forget s"; got != want {
		t.Errorf("got the calls %q, want %q", got, want)
	}
}
