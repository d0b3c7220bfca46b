package podactions

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	kubelettypes "k8s.io/kubelet/pkg/types"
)

// The request that makes a sandbox carries the name, the namespace and the uid of its Pod, and the
// attempt; labels and the directory of logs have them too.
//
// row: CRI-08
// row: CRI-10
func TestSandboxIsNamedAfterItsPod(t *testing.T) {
	for _, ns := range []string{"default", "prod"} {
		call := testOperation(t, &fakePorts{}, testPod(v1.Container{Name: "c"}))
		call.pod.Namespace, call.executor.d.Node.ClusterDNS = ns, []string{"10.96.0.10"}
		cfg, err := call.sandboxConfig(t.Context(), 3, func(_, message string) { t.Error(message) })
		if err != nil {
			t.Fatal(err)
		}
		p := call.pod
		if m := cfg.Metadata; m.Name != p.Name || m.Namespace != ns || m.Uid != string(p.UID) || m.Attempt != 3 {
			t.Errorf("got metadata %v, want name %s, namespace %s, uid %s and attempt 3", m, p.Name, ns, p.UID)
		}
		if got := cfg.Labels[kubelettypes.KubernetesPodNamespaceLabel]; got != ns {
			t.Errorf("got the label of the namespace %q, want %q", got, ns)
		}
		if want := LogDir(call.executor.d.Node.LogDir, p); cfg.LogDirectory != want {
			t.Errorf("got the log directory %s, want %s", cfg.LogDirectory, want)
		}
	}
}
