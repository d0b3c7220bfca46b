package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gantry-project/gantry/test/binaries"
	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/ports"
	"github.com/gantry-project/gantry/test/process"
)

const (
	services = "10.172.0.0/16"
	agnhost  = "registry.k8s.io/e2e-test-images/agnhost:2.45"
)

// cluster is a `gantry up` that can be killed and started again.
type cluster struct {
	t    *testing.T
	bin  string
	dir  string
	args []string
	api  kubernetes.Interface
	net  *ports.Network
	proc *process.Process // the last `gantry up`
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	bin := binaries.Dir(t)
	if own := os.Getenv("GANTRY_BIN"); own != "" {
		bin = own
	}
	if _, err := os.Stat(filepath.Join(bin, "gantry")); err != nil {
		t.Skip("runs the built program: make build")
	}
	dir, err := os.MkdirTemp("/tmp", "gantry-rollout-")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, bin: bin, dir: dir}
	if c.net, err = ports.ReserveNetwork("gxc"); err != nil {
		t.Fatal(err)
	}
	c.args = []string{"up", "--data-dir", dir, "--node-name", "node-1", "--bridge", c.net.Bridge, "--pod-cidr",
		c.net.PodCIDR, "--service-cluster-ip-range", services,
		"--node-ip", "127.0.0.1", "--proxy-healthz-bind-address", "", "--proxy-metrics-bind-address", ""}
	for _, flag := range []string{"--secure-port", "--kubelet-port", "--scheduler-port"} {
		port, err := ports.Free()
		if err != nil {
			t.Fatal(err)
		}
		c.args = append(c.args, flag, fmt.Sprint(port))
	}
	t.Cleanup(c.remove)
	c.start()
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	if c.api, err = kubernetes.NewForConfig(cfg); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "images.tar")
	if err := images.Archive(archive, map[string]images.Make{agnhost: images.Agnhost}); err != nil {
		t.Fatal(err)
	}
	c.gantry("image", "import", "--data-dir", dir, archive)
	return c
}

// start runs `gantry up` and waits until its node is Ready.
func (c *cluster) start() {
	c.t.Helper()
	var err error
	if c.proc, err = process.Start(exec.Command(filepath.Join(c.bin, "gantry"), c.args...),
		filepath.Join(c.dir, "gantry.log")); err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	if err := c.proc.WaitOutput(ctx, "node ready"); err != nil {
		c.t.Fatal(err)
	}
}

// kill ends Gantry as a power cut of the process would.
func (c *cluster) kill() {
	c.t.Helper()
	c.proc.Kill()
}

func (c *cluster) remove() {
	if c.proc != nil {
		if c.t.Failed() {
			c.t.Log(c.proc.Report())
		}
		c.proc.Kill()
	}
	c.gantry("clean", "--data-dir", c.dir, "--bridge", c.net.Bridge, "--pod-cidr", c.net.PodCIDR)
	if err := os.RemoveAll(c.dir); err != nil {
		c.t.Errorf("data directory: %v", err)
	}
	c.net.Release()
}

// gantry runs a subcommand and returns what it printed.
func (c *cluster) gantry(args ...string) string {
	c.t.Helper()
	out, err := exec.Command(filepath.Join(c.bin, "gantry"), args...).CombinedOutput()
	if err != nil {
		c.t.Errorf("gantry %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// inspect runs a subcommand that looks at the cluster, and reads its JSON into v.
func (c *cluster) inspect(v any, args ...string) {
	c.t.Helper()
	out := c.gantry(append(args, "-o", "json", "--kubeconfig", filepath.Join(c.dir, "kubeconfig"))...)
	if err := json.Unmarshal([]byte(out), v); err != nil {
		c.t.Fatalf("gantry %v: %v\n%s", args, err, out)
	}
}

// eventually asks until the answer is yes.
func (c *cluster) eventually(within time.Duration, what string, ok func(ctx context.Context) (string, bool)) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), within)
	defer cancel()
	for {
		state, yes := ok(ctx)
		if yes {
			return
		}
		if err := c.proc.Failed(); err != nil {
			c.t.Fatalf("%s: got error %v, want none", what, err)
		}
		select {
		case <-ctx.Done():
			c.t.Fatalf("not within %s: %s; last seen: %s", within, what, state)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *cluster) pods() []corev1.Pod {
	list, err := c.api.CoreV1().Pods("default").List(c.t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		return nil
	}
	return list.Items
}
