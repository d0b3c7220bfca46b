package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/up"
)

const (
	services = "10.172.0.0/16"
	agnhost  = "registry.k8s.io/e2e-test-images/agnhost:2.45"
)

// cluster is a `gantry up` that can be killed and started again.
type cluster struct {
	*up.Cluster
	t   *testing.T
	api kubernetes.Interface
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{Cluster: up.New(t, "gxc", "--service-cluster-ip-range", services,
		"--proxy-healthz-bind-address", "", "--proxy-metrics-bind-address", "",
		"--scheduler-port", fmt.Sprint(up.FreePort(t))), t: t}
	c.Start()
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
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
	c.Gantry("image", "import", "--data-dir", c.Dir, archive)
	return c
}

// inspect runs a subcommand that looks at the cluster, and reads its JSON into v.
func (c *cluster) inspect(v any, args ...string) {
	c.t.Helper()
	out := c.Gantry(append(args, "-o", "json", "--kubeconfig", c.Kubeconfig)...)
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
		if err := c.Process.Failed(); err != nil {
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
