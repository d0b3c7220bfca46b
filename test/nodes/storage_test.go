package nodes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// volumePod is a Pod of a node with a claim of its own.
func volumePod(node, size string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data-%[1]s}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: %[2]s}}}
---
apiVersion: v1
kind: Pod
metadata: {name: writer-%[1]s}
spec:
  nodeSelector: {kubernetes.io/hostname: %[1]s}
  terminationGracePeriodSeconds: 0
  volumes: [{name: v, persistentVolumeClaim: {claimName: data-%[1]s}}]
  containers:
  - {name: main, image: %[3]s, command: [sleep, "3600"], volumeMounts: [{name: v, mountPath: /v}]}
---`, node, size, image)
}

// A node that joined gives its Pods volumes of its own disk when `gantry csi-driver` runs there; a
// node without a driver gets no Pod with such a claim.
func TestVolumesOfJoinedNodes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b, c := l.machine("a", 1, 1), l.machine("b", 1, 2), l.machine("c", 2, 3)
	all := []*machine{a, b, c}
	l.cluster3(all)
	for _, m := range all {
		m.load()
	}
	kubeconfig := filepath.Join(b.dir, "local-storage.kubeconfig")
	raw, err := os.ReadFile(filepath.Join(a.dir, "local-storage.kubeconfig"))
	if err == nil {
		err = os.WriteFile(kubeconfig, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"csi-driver", "--kubeconfig", kubeconfig, "--node-name", "b", "--kubelet-dir",
		filepath.Join(b.dir, "kubelet"), "--volumes-dir", filepath.Join(b.dir, "local-storage")}
	driver := b.Start(args...)
	l.eventually(time.Minute, "the capacities of a and b", func() (string, bool) {
		out, _ := a.kubectl("", "get", "csistoragecapacities", "-n", "kube-system", "-o",
			`jsonpath={range .items[*]}{.nodeTopology.matchLabels.topology\.local\.csi\.gantry\.dev/node} {end}`)
		return out, strings.Contains(out, "a ") && strings.Contains(out, "b ")
	})
	for _, m := range []*machine{a, b} {
		a.mustKubectl(volumePod(m.name, "16Mi"), "apply", "-f", "-")
		a.mustKubectl("", "wait", "--for=condition=Ready", "pod/writer-"+m.name, "--timeout=90s")
		a.mustKubectl("", "exec", "writer-"+m.name, "--", "sh", "-c", "echo "+m.name+" > /v/f; sync")
		id := a.mustKubectl("", "get", "pvc", "data-"+m.name, "-o", "jsonpath={.spec.volumeName}")
		if _, err := os.Stat(filepath.Join(m.dir, "local-storage/volumes", id, "disk.img")); err != nil {
			t.Errorf("the volume of the Pod on %s is not on its disk: %v, want no error", m.name, err)
		}
	}
	a.mustKubectl(volumePod("c", "16Mi"), "apply", "-f", "-")
	l.eventually(time.Minute, "the Pod of c waits", func() (string, bool) {
		out, _ := a.kubectl("", "get", "pod", "writer-c", "-o", "jsonpath={.status.conditions[*].message}")
		return out, strings.Contains(out, "did not have enough free storage")
	})
	driver.Kill()
	b.Start(args...)
	a.mustKubectl("", "delete", "pod", "writer-b")
	a.mustKubectl(volumePod("b", "16Mi"), "apply", "-f", "-")
	a.mustKubectl("", "wait", "--for=condition=Ready", "pod/writer-b", "--timeout=90s")
	if got := a.mustKubectl("", "exec", "writer-b", "--", "cat", "/v/f"); strings.TrimSpace(got) != "b" {
		t.Errorf("after the driver was killed the file has %q, want b", got)
	}
	a.mustKubectl("", "delete", "pod", "writer-a", "writer-b", "writer-c")
	a.mustKubectl("", "delete", "pvc", "data-a", "data-b", "data-c")
	l.eventually(time.Minute, "the volumes go", func() (string, bool) {
		out, _ := a.kubectl("", "get", "pv", "-o", "name")
		return out, strings.TrimSpace(out) == ""
	})
}
