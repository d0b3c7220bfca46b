package kubelet_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/cri/crifake"
)

// etcdManifest is a control plane's etcd as a static Pod, with its directories below a test's.
const etcdManifest = `apiVersion: v1
kind: Pod
metadata:
  name: etcd
  namespace: kube-system
  labels: {component: etcd, tier: control-plane}
spec:
  hostNetwork: true
  priorityClassName: system-node-critical
  containers:
    - name: etcd
      image: registry.k8s.io/etcd:3.5.13-0
      command: [etcd, "--advertise-client-urls=https://192.0.2.10:2379", "--listen-client-urls=https://0.0.0.0:2379",
        --data-dir=/var/lib/etcd]
      volumeMounts:
        - {name: etcd-data, mountPath: /var/lib/etcd}
        - {name: etcd-certs, mountPath: /etc/kubernetes/pki/etcd}
  volumes:
    - {name: etcd-data, hostPath: {path: DIR/var/lib/etcd, type: DirectoryOrCreate}}
    - {name: etcd-certs, hostPath: {path: DIR/etc/kubernetes/pki/etcd, type: DirectoryOrCreate}}
`

// row: STA-11
// row: NET-08
// row: CSI-17
func TestStaticEtcd(t *testing.T) {
	t.Parallel()
	r, dir := live(t, nil)
	r.fake.AddImage(crifake.Image{Names: []string{"registry.k8s.io/etcd:3.5.13-0"}})
	put(t, dir, "etcd.yaml", strings.ReplaceAll(etcdManifest, "DIR", r.root))
	r.begin()
	var m *v1.Pod
	r.eventually("the mirror, running", func() bool {
		p, err := r.api.CoreV1().Pods("kube-system").Get(t.Context(), "etcd-n1", metav1.GetOptions{})
		m = p
		return err == nil && p.Status.Phase == v1.PodRunning
	})
	if m.Status.PodIP == "" || m.Status.PodIP != m.Status.HostIP {
		t.Errorf("address %q on host %q", m.Status.PodIP, m.Status.HostIP)
	}
	if taken := r.fake.Addresses(); len(taken) != 0 {
		t.Errorf("the sandbox: got an address of its own, %v, want the node's network", taken)
	}
	if m.Spec.Priority == nil || *m.Spec.Priority != 2000001000 {
		t.Errorf("priority %v", m.Spec.Priority)
	}
	for _, path := range []string{"var/lib/etcd", "etc/kubernetes/pki/etcd"} {
		if at, err := os.Stat(filepath.Join(r.root, path)); err != nil || !at.IsDir() {
			t.Errorf("%s: got %v, want no error and at.IsDir() true", path, err)
		}
	}
	if n := r.fake.Count("RunPodSandbox"); n != 1 {
		t.Errorf("%d sandboxes", n)
	}
}
