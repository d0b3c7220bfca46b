package noderole

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/record"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	kubeletresource "github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/options"
)

// TestReservedCgroups: the cgroups of the node's own programs get their reservation, CPU alone when
// that is asked, and one that is not there ends the start.
func TestReservedCgroups(t *testing.T) {
	for name, tc := range map[string]struct {
		enforce []string
		cgroup  string
		files   map[string]string
		says    string
		fails   string
	}{
		"whole": {[]string{"pods", "kube-reserved"}, "/podruntime.slice",
			map[string]string{"cpu.weight": "59", "memory.max": "268435456", "memory.min": "268435456",
				"pids.max": "100"},
			"Normal NodeAllocatableEnforced Updated limits on kube reserved cgroup /podruntime.slice", ""},
		"compressible": {[]string{"kube-reserved-compressible"}, "podruntime.slice",
			map[string]string{"cpu.weight": "59", "memory.max": "max"},
			"Normal NodeAllocatableEnforced Updated limits on kube reserved cgroup podruntime.slice", ""},
		"pods only": {[]string{"pods"}, "/podruntime.slice", map[string]string{"cpu.weight": "100"}, "", ""},
		"not there": {[]string{"kube-reserved"}, "/other.slice", nil,
			"Warning FailedNodeAllocatableEnforcement Failed to enforce Kube Reserved Cgroup Limits on",
			`Failed to enforce Kube Reserved Cgroup Limits on "/other.slice": cgroup /other.slice does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			mount := t.TempDir()
			dir := filepath.Join(mount, "podruntime.slice")
			for file, content := range map[string]string{"cgroup.controllers": "cpu memory pids",
				"cgroup.subtree_control": "cpu memory pids", "podruntime.slice/cgroup.controllers": "cpu memory pids",
				"podruntime.slice/cpu.weight": "100", "podruntime.slice/cpu.max": "max 100000",
				"podruntime.slice/memory.max": "max", "podruntime.slice/memory.min": "0",
				"podruntime.slice/pids.max": "max"} {
				at := filepath.Join(mount, file)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			role := &Role{instance: &options.Instance{NodeName: "n1"}, config: &kubeletconfig.KubeletConfiguration{
				EnforceNodeAllocatable: tc.enforce, KubeReservedCgroup: tc.cgroup,
				KubeReserved: map[string]string{"cpu": "500m", "memory": "256Mi", "pid": "100"}}}
			events := record.NewFakeRecorder(3)
			err := role.enforceReserved(mount, kubeletresource.Options{Unified: true, MemoryQoS: true}, events)
			if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Fatalf("got error %v, want %q", err, tc.fails)
			}
			for file, want := range tc.files {
				if raw, err := os.ReadFile(filepath.Join(dir, file)); err != nil ||
					strings.TrimSpace(string(raw)) != want {
					t.Errorf("%s: got %q and error %v, want %q", file, raw, err, want)
				}
			}
			close(events.Events)
			if got := <-events.Events; !strings.HasPrefix(got, tc.says) {
				t.Errorf("event: got %q, want %q", got, tc.says)
			}
		})
	}
}
