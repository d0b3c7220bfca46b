package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// kubectl shows Pending for all three; they wait for different things.
//
// row: OPS-15
func TestThreeKindsOfPending(t *testing.T) {
	seen := map[string]string{}
	for name, c := range map[string]struct {
		set  func(in *In)
		says string
	}{
		"not scheduled": {func(in *In) {
			in.Pod.Spec.NodeName = ""
			in.fact(50*time.Second, "scheduler", journal.Ruled{Attempt: 1, Nodes: 1,
				Message: "0/1 nodes are available: 1 Insufficient cpu.",
				Refusals: []journal.NodeRefusal{{Node: "n1", Plugin: "NodeResourcesFit",
					Messages: []string{"Insufficient cpu"}}}})
		}, "0/1 nodes are available: 1 Insufficient cpu."},
		"pulling": {func(in *In) {
			in.fact(7*time.Second, "kubelet", journal.Pulling{Image: "registry.test/web:1.4.3", Container: "app"})
		}, "registry.test/web:1.4.3"},
		"no sandbox": {func(in *In) {
			in.fact(2*time.Second, "kubelet", journal.Called{Service: "CRI", Method: "RunPodSandbox",
				Error: "no address left in 10.72.0.0/30"})
		}, "cannot make the Pod's sandbox (network and namespaces): no address left in 10.72.0.0/30"},
	} {
		in := base()
		in.Pod.Status.Phase = corev1.PodPending
		c.set(&in)
		var b strings.Builder
		a := Why(in)
		if err := a.WriteText(&b, t0); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), c.says) {
			t.Errorf("%s: %s\nwant %q", name, b.String(), c.says)
		}
		if other, taken := seen[a.State]; taken {
			t.Errorf("%s and %s both got %s", name, other, a.State)
		}
		seen[a.State] = name
	}
}
