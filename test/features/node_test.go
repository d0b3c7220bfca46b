package features_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/test/binaries"
	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/ports"
	"github.com/gantry-project/gantry/test/process"
)

// node is a `gantry up` with real containers.
type node struct {
	t        *testing.T
	bin, dir string
	proc     *process.Process
}

// startNode runs `gantry up` with the busybox image and removes it all when the test ends. It needs
// root and the programs that `make build` makes.
func startNode(t *testing.T) *node {
	t.Helper()
	bin := binaries.Programs(t)
	dir, err := os.MkdirTemp("/tmp", "gantry-rows-")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, bin: bin, dir: dir}
	own, err := ports.ReserveNetwork("gxrows")
	if err != nil {
		t.Fatal(err)
	}
	var port [2]int
	for i := range port {
		if port[i], err = ports.Free(); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(bin, "gantry"), "up", "--data-dir", dir, "--node-name", "node-1", "--secure-port",
		fmt.Sprint(port[0]), "--kubelet-port", fmt.Sprint(port[1]),
		"--bridge", own.Bridge, "--pod-cidr", own.PodCIDR, "--node-ip", "127.0.0.1")
	if n.proc, err = process.Start(cmd, filepath.Join(dir, "gantry.log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(n.proc.Report())
		}
		n.proc.Kill()
		if out, err := exec.Command(filepath.Join(bin, "gantry"), "clean", "--data-dir", dir, "--bridge", own.Bridge,
			"--pod-cidr", own.PodCIDR).CombinedOutput(); err != nil {
			t.Errorf("gantry clean: %v\n%s", err, out)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		own.Release()
	})
	n.soon("the node is Ready", func() (string, bool) {
		out, err := n.try("", "kubectl", "get", "node", "node-1", "-o",
			"jsonpath={.status.conditions[?(@.type=='Ready')].status}")
		return out, err == nil && out == "True"
	})
	n.soon("the default service account", func() (string, bool) {
		out, err := n.try("", "kubectl", "get", "serviceaccount", "default")
		return out, err == nil
	})
	archive := filepath.Join(t.TempDir(), "images.tar")
	if err := images.Archive(archive, images.Select(images.Standard(), busybox)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(bin, "gantry"), "image", "import", "--data-dir", dir,
		archive).CombinedOutput(); err != nil {
		t.Fatalf("gantry image import: %v\n%s", err, out)
	}
	return n
}

const busybox = "docker.io/library/busybox:1.28"

// as is the same node for a subtest.
func (n *node) as(t *testing.T) *node { return &node{t, n.bin, n.dir, n.proc} }

// try runs kubectl, or gantry with another word in its place.
func (n *node) try(stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	program := filepath.Join(n.bin, "gantry")
	if args[0] == "kubectl" {
		args = args[1:]
		if stock, err := exec.LookPath("kubectl"); err == nil {
			program = stock
		} else {
			program = filepath.Join(n.bin, "kubectl")
		}
	}
	cmd := exec.CommandContext(ctx, program, append(args, "--kubeconfig", filepath.Join(n.dir, "kubeconfig"))...)
	if args[0] == "debug" { // what follows -- is the container's
		cmd = exec.CommandContext(ctx, program, append([]string{"--kubeconfig", filepath.Join(n.dir, "kubeconfig")},
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

// is waits until a Pod's field is as wanted.
func (n *node) is(pod, path, want string) {
	n.t.Helper()
	n.soon(pod+" "+path+" is "+want, func() (string, bool) {
		out, err := n.try("", "kubectl", "get", "pod", pod, "-o", "jsonpath={"+path+"}")
		return out, err == nil && out == want
	})
}

// soon asks until ok says yes; it is for states that no watch of kubectl can express.
func (n *node) soon(what string, ok func() (string, bool)) {
	n.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		state, done := ok()
		if done {
			return
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("%s: not within a minute; last seen:\n%s", what, state)
		}
		if err := n.proc.Failed(); err != nil {
			n.t.Fatalf("%s: got error %v, want none", what, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}
