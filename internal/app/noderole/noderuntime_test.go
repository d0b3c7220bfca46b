package noderole

import (
	"strings"
	"testing"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// A kubelet whose runtime dies over its first questions waits for it, and says what it waits for.
func TestTheStartWaitsForARuntimeThatIsAway(t *testing.T) {
	for _, method := range []string{"RuntimeConfig", "Status"} {
		e, f, output := fakeContainerRuntime(t, "cgroupfs")
		if err := f.Fault(method, "3*drop->ok"); err != nil {
			t.Fatal(err)
		}
		if _, err := e.cgroupDriver(t.Context(), &kubeletconfig.KubeletConfiguration{}); err != nil {
			t.Errorf("%s: got %v, want that it is asked again", method, err)
		}
		if got := *output; len(got) != 1 || !strings.HasPrefix(got[0], "waiting for the container runtime: ") {
			t.Errorf("%s: said %q, want once what is waited for", method, got)
		}
		if err := f.Fault(method, "error(Internal: broken)"); err != nil {
			t.Fatal(err)
		}
		_, err := e.cgroupDriver(t.Context(), &kubeletconfig.KubeletConfiguration{})
		if err == nil || !strings.Contains(err.Error(), "asking the container runtime what it can do") {
			t.Errorf("%s that fails: got %v, want an error at once", method, err)
		}
	}
}
