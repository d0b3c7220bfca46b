package features_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/up"
)

// node is a `gantry up` with real containers.
type node struct {
	*up.Cluster
	t *testing.T
}

// startNode runs `gantry up` with the busybox image and removes it all when the test ends. It needs
// root and the programs that `make build` makes.
func startNode(t *testing.T) *node {
	t.Helper()
	n := &node{up.New(t, "gxrows"), t}
	n.Launch()
	n.eventually("the node is Ready", func() (string, bool) {
		out, err := n.try("", "kubectl", "get", "node", "node-1", "-o",
			"jsonpath={.status.conditions[?(@.type=='Ready')].status}")
		return out, err == nil && out == "True"
	})
	n.eventually("the default service account", func() (string, bool) {
		out, err := n.try("", "kubectl", "get", "serviceaccount", "default")
		return out, err == nil
	})
	archive := filepath.Join(t.TempDir(), "images.tar")
	if err := images.Archive(archive, images.Select(images.Standard(), busybox)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(n.Bin, "gantry"), "image", "import", "--data-dir", n.Dir,
		archive).CombinedOutput(); err != nil {
		t.Fatalf("gantry image import: %v\n%s", err, out)
	}
	return n
}

const busybox = "docker.io/library/busybox:1.28"

// forSubtest is the same node for a subtest.
func (n *node) forSubtest(t *testing.T) *node { return &node{n.Cluster.As(t), t} }

// try runs kubectl, or gantry with another word in its place.
func (n *node) try(stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	program := filepath.Join(n.Bin, "gantry")
	if args[0] == "kubectl" {
		args = args[1:]
		if stock, err := exec.LookPath("kubectl"); err == nil {
			program = stock
		} else {
			program = filepath.Join(n.Bin, "kubectl")
		}
	}
	cmd := exec.CommandContext(ctx, program, append(args, "--kubeconfig", n.Kubeconfig)...)
	if args[0] == "debug" { // what follows -- is the container's
		cmd = exec.CommandContext(ctx, program, append([]string{"--kubeconfig", n.Kubeconfig},
			args...)...)
	}
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (n *node) run(args ...string) string {
	n.t.Helper()
	out, err := n.try("", args...)
	if err != nil {
		n.t.Fatalf("%s: got %v, want no error\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (n *node) apply(manifest string) {
	n.t.Helper()
	if out, err := n.try(manifest, "kubectl", "apply", "-f", "-"); err != nil {
		n.t.Fatalf("kubectl apply: %v\n%s\n%s", err, out, manifest)
	}
}

// field reads a Pod's field.
func (n *node) field(pod, path string) string {
	n.t.Helper()
	return n.run("kubectl", "get", "pod", pod, "-o", "jsonpath={"+path+"}")
}

// waitForField waits until a Pod's field is as wanted.
func (n *node) waitForField(pod, path, want string) {
	n.t.Helper()
	n.eventually(pod+" "+path+" is "+want, func() (string, bool) {
		out, err := n.try("", "kubectl", "get", "pod", pod, "-o", "jsonpath={"+path+"}")
		return out, err == nil && out == want
	})
}

// eventually asks until ok says yes; it is for states that no watch of kubectl can express.
func (n *node) eventually(what string, ok func() (string, bool)) {
	n.t.Helper()
	up.Eventually(n.t, time.Minute, what, ok, n.Process)
}
