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

// What was true of the Pod before is not told: a sandbox that failed and was made at a later try, a
// result that refused it before it was bound, an image that has been pulled.
//
// row: OPS-15
func TestPendingDescribesThePresent(t *testing.T) {
	refused := journal.Called{Service: "CRI", Method: "RunPodSandbox", Error: "no address left in 10.72.0.0/30"}
	made := journal.Called{Service: "CRI", Method: "RunPodSandbox"}
	pulling := journal.Pulling{Image: "registry.test/web:1.4.3", Container: "app"}
	ruled := journal.Ruled{Attempt: 1, Nodes: 1, Message: "0/1 nodes are available: 1 Insufficient cpu.",
		Refusals: []journal.NodeRefusal{
			{Node: "n1", Plugin: "NodeResourcesFit", Messages: []string{"Insufficient cpu"}}}}
	for name, c := range map[string]struct {
		facts     []journal.Fact // one each second, the last one five seconds ago
		says, not string
	}{
		"a sandbox at the second try, then a pull": {[]journal.Fact{refused, made, pulling},
			"registry.test/web:1.4.3", "sandbox"},
		"a sandbox at the second try": {[]journal.Fact{refused, made}, "", "cannot make the Pod's sandbox"},
		"two sandboxes refused": {[]journal.Fact{refused, refused},
			"cannot make the Pod's sandbox (network and namespaces): no address left", "is being pulled"},
		"a new sandbox refused": {[]journal.Fact{made, refused}, "cannot make the Pod's sandbox", "is being pulled"},
		"a node at the second attempt, then a pull": {[]journal.Fact{ruled, journal.Bound{Node: "n1"}, made, pulling},
			"registry.test/web:1.4.3", "nodes are available"},
		"an image that is there": {[]journal.Fact{made, pulling, journal.Pulled{Image: "registry.test/web:1.4.3"}}, "",
			"is being pulled"},
	} {
		in := base()
		in.Pod.Status.Phase = corev1.PodPending
		for i, f := range c.facts {
			in.fact(time.Duration(5+len(c.facts)-i)*time.Second, "kubelet", f)
		}
		var b strings.Builder
		a := Why(in)
		if err := a.WriteText(&b, t0); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); !strings.Contains(got, c.says) || strings.Contains(got, c.not) {
			t.Errorf("%s: told\n%s\nwant %q and not %q", name, got, c.says, c.not)
		}
	}
}
