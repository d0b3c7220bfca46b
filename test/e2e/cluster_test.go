package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/test/ports"
	"github.com/gantry-project/gantry/test/process"
)

// ready is what `gantry up` prints when the node is Ready.
const ready = "node ready"

// cluster is one Gantry that a test started.
type cluster struct {
	t      *testing.T
	bin    string
	dir    string
	args   []string
	config string

	net  *ports.Network
	proc *process.Process // the last `gantry up`; nil before
}

// binaries returns the folder of built programs, or skips.
func binaries(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it runs real containers")
	}
	if os.Getenv("GANTRY_NO_CONTAINERS") != "" {
		t.Skip("GANTRY_NO_CONTAINERS is set")
	}
	dir := os.Getenv("GANTRY_BIN")
	if dir == "" {
		dir = "../../build/bin"
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gantry", "runc", "containerd-shim-runc-v2", "pause", "cni/gantry-cni"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Skipf("needs %s: run `make build` first", filepath.Join(dir, name))
		}
	}
	return dir
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := ports.Free()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// newCluster prepares a cluster of its own and has it removed, and checked for leftovers, when the
// test ends.
func newCluster(t *testing.T, flags ...string) *cluster {
	t.Helper()
	bin := binaries(t)
	dir, err := os.MkdirTemp("/tmp", "gantry-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, bin: bin, dir: dir, config: filepath.Join(dir, "kubeconfig")}
	if c.net, err = ports.ReserveNetwork("gt"); err != nil {
		t.Fatal(err)
	}
	c.args = append([]string{"up", "--data-dir", dir, "--node-name", "node-1",
		"--secure-port", fmt.Sprint(freePort(t)), "--kubelet-port", fmt.Sprint(freePort(t)),
		"--bridge", c.net.Bridge, "--pod-cidr", c.net.PodCIDR,
		"--node-ip", "127.0.0.1", "-v=2"}, flags...)
	t.Cleanup(c.remove)
	return c
}

// start runs `gantry up` and waits until the node is Ready.
func (c *cluster) start() {
	c.t.Helper()
	c.launch()
	c.waitOutput(ready, 2*time.Minute)
}

// launch runs `gantry up` without waiting.
func (c *cluster) launch() {
	c.t.Helper()
	p, err := process.Start(exec.Command(filepath.Join(c.bin, "gantry"), c.args...), filepath.Join(c.dir, "gantry.log"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.proc = p
}

func (c *cluster) waitOutput(text string, within time.Duration) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), within)
	defer cancel()
	if err := c.proc.WaitOutput(ctx, text); err != nil {
		c.t.Fatal(err)
	}
}

// kill ends Gantry with SIGKILL and waits for it.
func (c *cluster) kill() {
	c.t.Helper()
	c.proc.Kill()
}

// stop ends Gantry with SIGTERM and returns how it ended.
func (c *cluster) stop() error {
	c.t.Helper()
	return c.proc.End(2 * time.Minute)
}

// remove stops what runs, removes everything of the instance and checks that nothing is left.
func (c *cluster) remove() {
	if c.proc != nil {
		if c.t.Failed() {
			c.t.Log(c.proc.Report())
		}
		c.proc.Kill()
	}
	out, err := exec.Command(filepath.Join(c.bin, "gantry"), "clean", "--data-dir", c.dir, "--bridge",
		c.flag("--bridge"), "--pod-cidr", c.flag("--pod-cidr")).CombinedOutput()
	if err != nil {
		c.t.Errorf("gantry clean: %v\n%s", err, out)
	}
	for _, left := range c.leftovers() {
		c.t.Errorf("left behind: %s", left)
	}
	if err := os.RemoveAll(c.dir); err != nil {
		c.t.Errorf("data directory: %v", err)
	}
	c.net.Release()
}

func (c *cluster) flag(name string) string {
	for i, a := range c.args {
		if a == name {
			return c.args[i+1]
		}
	}
	return ""
}

// leftovers names mounts, processes and links of this instance.
func (c *cluster) leftovers() []string {
	var out []string
	mounts, _ := os.ReadFile("/proc/mounts")
	for _, line := range strings.Split(string(mounts), "\n") {
		if strings.Contains(line, c.dir) {
			out = append(out, "mount "+line)
		}
	}
	if _, err := net.InterfaceByName(c.flag("--bridge")); err == nil {
		out = append(out, "link "+c.flag("--bridge"))
	}
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		raw, _ := os.ReadFile(p)
		if bytes.Contains(raw, []byte(c.dir)) {
			out = append(out, p+" "+string(bytes.ReplaceAll(raw, []byte{0}, []byte{' '})))
		}
	}
	return out
}

// kubectl runs stock kubectl and returns what it printed; it fails the test when kubectl fails.
func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	out, err := c.try("", args...)
	if err != nil {
		c.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// apply sends a manifest.
func (c *cluster) apply(manifest string) string {
	c.t.Helper()
	out, err := c.try(manifest, "apply", "-f", "-")
	if err != nil {
		c.t.Fatalf("kubectl apply: %v\n%s\n%s", err, out, manifest)
	}
	return out
}

// try runs kubectl and returns what it printed and how it ended.
func (c *cluster) try(stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	program := "kubectl"
	if _, err := exec.LookPath(program); err != nil {
		program = filepath.Join(c.bin, "kubectl")
	}
	cmd := exec.CommandContext(ctx, program, append([]string{"--kubeconfig", c.config}, args...)...)
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	out, err := cmd.CombinedOutput()
	return early.ReplaceAllString(string(out), ""), err
}

// early is what kubectl logs when a server's first message, an empty one that says that a stream is
// open, overtakes its own opening of that stream.
var early = regexp.MustCompile(`(?m)^E.* websocket\.go:\d+\] Unknown stream id \d, discarding message\n`)

// gantry runs a subcommand against this cluster.
func (c *cluster) gantry(args ...string) string {
	c.t.Helper()
	out, err := exec.Command(filepath.Join(c.bin, "gantry"), append(args, "--kubeconfig", c.config)...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("gantry %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// waitFor is `kubectl wait` with the given condition.
func (c *cluster) waitFor(what, condition string, within time.Duration) {
	c.t.Helper()
	if out, err := c.try("", "wait", what, "--for="+condition, "--timeout="+within.String()); err != nil {
		state, _ := c.try("", "describe", what)
		c.t.Fatalf("waiting for %s of %s: %v\n%s\n%s", condition, what, err, out, state)
	}
}

// eventually asks until ok says yes; it is for states that no watch of kubectl can express.
func (c *cluster) eventually(within time.Duration, what string, ok func() (string, bool)) {
	c.t.Helper()
	deadline := time.Now().Add(within)
	for {
		state, done := ok()
		if done {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: not within %s; last seen:\n%s", what, within, state)
		}
		if c.proc != nil {
			if err := c.proc.Failed(); err != nil {
				c.t.Fatalf("%s: got error %v, want none", what, err)
			}
		}
		<-time.After(50 * time.Millisecond)
	}
}
