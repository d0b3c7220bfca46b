package e2e

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/test/process"
	"github.com/gantry-project/gantry/test/up"
)

// role runs one role of Gantry alone until the test ends.
func (c *cluster) role(args ...string) *process.Process {
	c.t.Helper()
	r := &up.Roles{TB: c.t, Bin: c.Bin}
	c.t.Cleanup(r.End)
	return r.Start(args...)
}

// Each role alone, joined by kubeconfigs over HTTPS only: the node under its node certificate, the
// scheduler and the controllers under theirs. Their facts reach the journal all the same.
func TestRolesAlone(t *testing.T) {
	t.Parallel()
	c := newCluster(t) // prepares directory, ports and clean-up; `gantry up` is not started
	port, kubeletPort := c.Flag("--secure-port"), c.Flag("--kubelet-port")
	server := filepath.Join(c.Dir, "server")
	c.Kubeconfig = filepath.Join(server, "kubeconfig")
	c.Process = c.role("server", "--data-dir", server, "--secure-port", port, "--bind-address", "127.0.0.1",
		"--node-name",
		"node-1")
	c.eventually(time.Minute, "the API server answers", func() (string, bool) {
		out, err := c.try("", "get", "--raw", "/readyz")
		return out, err == nil && out == "ok"
	})
	in := func(name string) string { return filepath.Join(server, name) }
	c.role("controllers", "--kubeconfig", in("controllers.kubeconfig"))
	c.role("scheduler", "--kubeconfig", in("scheduler.kubeconfig"), "-v", "2", "--secure-port",
		fmt.Sprint(up.FreePort(t)))
	node := c.role("kubelet", "--kubeconfig", in("kubelet.kubeconfig"), "--data-dir", c.Dir, "--hostname-override",
		"node-1", "--node-ip", "127.0.0.1",
		"--kubelet-port", kubeletPort, "--bridge", c.Flag("--bridge"), "--pod-cidr", c.Flag("--pod-cidr"),
		"--client-ca-file", in("pki/ca.crt"), "--tls-cert-file", in("pki/kubelet.crt"), "--tls-private-key-file",
		in("pki/kubelet.key"))
	c.eventually(time.Minute, "the node registers", func() (string, bool) {
		if err := node.Failed(); err != nil {
			t.Fatalf("the kubelet: %v, want no error", err)
		}
		out, err := c.try("", "get", "node", "node-1")
		return out, err == nil
	})
	c.waitFor("node/node-1", "condition=Ready", time.Minute)
	c.importImages("docker.io/library/busybox:1.28")
	c.eventually(time.Minute, "service account", func() (string, bool) {
		out, err := c.try("", "get", "serviceaccount", "default")
		return out, err == nil
	})
	c.kubectl("create", "deployment", "web", "--image=busybox:1.28", "--", "sh", "-c",
		"trap 'exit 0' TERM; echo here; while true; do sleep 0.2; done")
	c.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
	if out := c.kubectl("logs", "deployment/web"); out != "here\n" {
		t.Errorf("logs through the API server: %q, want \"here\\n\"", out)
	}
	pod := strings.TrimPrefix(strings.TrimSpace(c.kubectl("get", "pods", "-l", "app=web", "-o", "name")), "pod/")
	c.eventually(time.Minute, "facts of all roles in the journal", func() (string, bool) {
		trace := c.gantry("trace", "pod/"+pod)
		for _, want := range []string{"controllers", "bound to node-1", "CRI StartContainer", "Ready=True"} {
			if !strings.Contains(trace, want) {
				return fmt.Sprintf("lacks %q:\n%s", want, trace), false
			}
		}
		return trace, true
	})
	node.Kill()
	c.kubectl("delete", "deployment", "web")
	if raw, _ := exec.Command("pgrep", "-f", "containerd --config /run/gantry").Output(); len(
		bytes.TrimSpace(raw)) == 0 {
		t.Error("containerd did not outlive its kubelet")
	}
}
