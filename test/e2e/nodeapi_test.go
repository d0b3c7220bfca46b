package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const chatty = `apiVersion: v1
kind: Pod
metadata: {name: chatty}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: docker.io/library/busybox:1.28
    imagePullPolicy: IfNotPresent
    command: [sh, -c, 'i=0; while [ $i -lt 1200 ]; do echo "line $i with some words that fill it"; i=$((i+1));
      [ $((i%100)) = 0 ] && sleep 1; done; exit 3']
    resources: {limits: {cpu: 500m, memory: 64Mi}}
    livenessProbe: {exec: {command: ["true"]}, periodSeconds: 1}
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {}}]
`

// row: KAP-15
//
// The node's own pages through the API server, as metrics-server and Prometheus read them; logs
// that are rotated while they are followed.
func TestNodeAPI(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "kubelet.yaml")
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncontainerLogMaxSize: " +
		"10Ki\ncontainerLogMaxFiles: 3\ncontainerLogMonitorInterval: 3s\nhealthzPort: 0\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, "--kubelet-config", config)
	c.Start()
	c.importImages("docker.io/library/busybox:1.28")
	node := c.field("nodes", "{.items[0].metadata.name}")
	raw := func(page string) string { return c.kubectl("get", "--raw", "/api/v1/nodes/"+node+"/proxy/"+page) }
	c.apply(chatty)
	c.waitFor("pod/chatty", "condition=Ready", time.Minute)
	t.Run("pages", func(t *testing.T) {
		c.forSubtest(t).eventually(time.Minute, "numbers of the Pod", func() (string, bool) {
			pages := raw("metrics/resource") + raw("metrics/cadvisor") + raw("metrics/probes") + raw("metrics") +
				raw("stats/summary")
			for _, want := range []string{
				`container_memory_working_set_bytes{container="app",namespace="default",pod="chatty"}`,
				`container_spec_cpu_quota{container="app"`,
				`prober_probe_total{container="app",namespace="default",pod="chatty"`, `kubelet_running_pods 1`,
				`kubelet_runtime_operations_total{operation_type="run_podsandbox"}`,
				`"usageCoreNanoSeconds"`, `"volume":[`, `container_network_receive_bytes_total{container="",`,
			} {
				if !strings.Contains(pages, want) {
					return "missing: " + want, false
				}
			}
			return "", true
		})
		if got := raw("healthz"); got != "ok" {
			t.Errorf("healthz: %s, want ok", got)
		}
	})
	t.Run("logs", func(t *testing.T) {
		c := c.forSubtest(t)
		out := strings.Split(strings.TrimSpace(c.kubectl("logs", "-f", "chatty")), "\n")
		for i := 1; i < len(out); i++ {
			var was, now int
			if scan(out[i-1], &was) && scan(out[i], &now) && now != was+1 {
				t.Fatalf("after %q comes %q", out[i-1], out[i])
			}
		}
		if last := out[len(out)-1]; !strings.HasPrefix(last, "line 1199 ") {
			t.Errorf("the end: got %q, want it to begin with %q", last, "line 1199 ")
		}
		files, err := filepath.Glob(filepath.Join(c.Dir, "kubelet/logs/default_chatty_*/app/0.log*"))
		if err != nil || len(files) < 2 || len(files) > 3 {
			t.Errorf("%v, %v: not rotated, or more kept than allowed", files, err)
		}
		c.eventually(time.Minute, "the container runs again", func() (string, bool) {
			n := c.field("pod/chatty", "{.status.containerStatuses[0].restartCount}")
			return n, n == "1"
		})
		if last := c.kubectl("logs", "--previous", "--tail=1", "chatty"); !strings.HasPrefix(last, "line 1199 ") {
			t.Errorf("the previous run ended with %q", last)
		}
	})
	t.Run("rights", func(t *testing.T) { rights(c.forSubtest(t)) })
}

// rights: a user sees logs and executes commands only with the Roles for it.
func rights(c *cluster) {
	c.kubectl("create", "role", "reader", "--verb=get", "--resource=pods,pods/log")
	c.kubectl("create", "rolebinding", "reader", "--role=reader", "--user=alice")
	if out, err := c.try("", "--as=alice", "logs", "--tail=1", "chatty"); err != nil {
		c.t.Errorf("logs with a Role for it: %v %s, want no error", err, out)
	}
	if out, err := c.try("", "--as=alice", "exec", "chatty", "--", "true"); err == nil ||
		!strings.Contains(out, "forbidden") && !strings.Contains(err.Error(), "forbidden") {
		c.t.Errorf("exec without a Role for it: %v %s", err, out)
	}
	if out, err := c.try("", "--as=bob", "logs", "chatty"); err == nil ||
		!strings.Contains(out, "forbidden") && !strings.Contains(err.Error(), "forbidden") {
		c.t.Errorf("logs without a Role for it: %v %s", err, out)
	}
}

// scan reads the number of a line.
func scan(line string, n *int) bool {
	f := strings.Fields(line)
	if len(f) < 2 || f[0] != "line" {
		return false
	}
	*n = 0
	for _, r := range f[1] {
		*n = *n*10 + int(r-'0')
	}
	return true
}
