// Package up starts `gantry up` for a test: in a new directory, on free ports, with a network of
// its own, removed and checked for leftovers when the test ends. Roles runs several processes of
// Gantry, each with the flags that the test gives it.
//
// Tools that measure use test/replay/instance.
package up

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/test/binaries"
	"github.com/gantry-project/gantry/test/ports"
	"github.com/gantry-project/gantry/test/process"
)

// NodeReady is what `gantry up` prints when the node is Ready.
const NodeReady = "node ready"

// Cluster is one `gantry up`, which may be ended and started again. Its methods belong to the
// goroutine of the test.
type Cluster struct {
	TB         testing.TB
	Bin        string // folder of built programs
	Dir        string // data directory
	Kubeconfig string // the administrator's
	Args       []string
	Network    *ports.Network
	Process    *process.Process // the last `gantry up`; nil before
}

// New prepares a cluster; nothing runs yet. Its bridge is called after prefix, a few letters that
// are the package's own; flags are further ones of `gantry up`. The test is skipped where real
// containers cannot run.
func New(t testing.TB, prefix string, flags ...string) *Cluster {
	t.Helper()
	bin := binaries.Programs(t)
	dir, err := os.MkdirTemp("/tmp", "gantry-"+prefix+"-")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{TB: t, Bin: bin, Dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig")}
	if c.Network, err = ports.ReserveNetwork(prefix); err != nil {
		t.Fatal(err)
	}
	c.Args = []string{"up", "--data-dir", dir, "--node-name", "node-1", "--bridge", c.Network.Bridge,
		"--pod-cidr", c.Network.PodCIDR, "--node-ip", "127.0.0.1"}
	for _, flag := range []string{"--secure-port", "--kubelet-port"} {
		c.Args = append(c.Args, flag, fmt.Sprint(FreePort(t)))
	}
	c.Args = append(c.Args, flags...)
	t.Cleanup(c.remove)
	return c
}

// As is the same cluster for a subtest, which failures are reported to; the process it leaves
// running is c's.
func (c *Cluster) As(t testing.TB) *Cluster {
	own := *c
	own.TB = t
	before := c.Process
	t.Cleanup(func() {
		if own.Process != before { // subtests may be parallel as long as they start nothing
			c.Process = own.Process
		}
	})
	return &own
}

// FreePort is a port that nobody listens on.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := ports.Free()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Start runs `gantry up` and waits until the node is Ready.
func (c *Cluster) Start() {
	c.TB.Helper()
	c.Launch()
	c.WaitOutput(NodeReady, 2*time.Minute)
}

// Launch runs `gantry up` without waiting.
func (c *Cluster) Launch() {
	c.TB.Helper()
	p, err := process.Start(exec.Command(filepath.Join(c.Bin, "gantry"), c.Args...), filepath.Join(c.Dir, "gantry.log"))
	if err != nil {
		c.TB.Fatal(err)
	}
	c.Process = p
}

// WaitOutput waits until `gantry up` has printed a text.
func (c *Cluster) WaitOutput(text string, within time.Duration) {
	c.TB.Helper()
	ctx, cancel := context.WithTimeout(c.TB.Context(), within)
	defer cancel()
	if err := c.Process.WaitOutput(ctx, text); err != nil {
		c.TB.Fatal(err)
	}
}

// Kill ends Gantry with SIGKILL, as a power cut of the process would, and waits for it.
func (c *Cluster) Kill() {
	c.TB.Helper()
	c.Process.Kill()
}

// Stop ends Gantry with SIGTERM and returns how it ended.
func (c *Cluster) Stop() error {
	c.TB.Helper()
	return c.Process.End(2 * time.Minute)
}

// Eventually polls until ok returns true. It fails with what ok saw last, within the time at most,
// and at once when `gantry up` has ended by itself; what describes it.
func (c *Cluster) Eventually(within time.Duration, what string, ok func() (saw string, ok bool)) {
	c.TB.Helper()
	if c.Process == nil {
		Eventually(c.TB, within, what, ok)
		return
	}
	Eventually(c.TB, within, what, ok, c.Process)
}

// Gantry runs a subcommand with these arguments and returns what it printed; one that fails is a
// failure of the test, which goes on.
func (c *Cluster) Gantry(args ...string) string {
	c.TB.Helper()
	out, err := exec.Command(filepath.Join(c.Bin, "gantry"), args...).CombinedOutput()
	if err != nil {
		c.TB.Errorf("gantry %s: got error %v, want none\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Flag is the value of a flag of `gantry up`; empty when it is not given.
func (c *Cluster) Flag(name string) string {
	for i, a := range c.Args {
		if a == name {
			return c.Args[i+1]
		}
	}
	return ""
}

// Leftovers names mounts, processes and links of this instance.
func (c *Cluster) Leftovers() []string {
	out := Mounts(c.Dir)
	if _, err := net.InterfaceByName(c.Flag("--bridge")); err == nil {
		out = append(out, "link "+c.Flag("--bridge"))
	}
	return append(out, Processes(c.Dir)...)
}

// remove stops what runs, removes everything of the instance and checks that nothing is left.
func (c *Cluster) remove() {
	defer c.Network.Release()
	if c.Process != nil {
		if c.TB.Failed() {
			c.TB.Log(c.Process.Report())
		}
		c.Process.Kill()
	}
	c.Gantry("clean", "--data-dir", c.Dir, "--bridge", c.Flag("--bridge"), "--pod-cidr", c.Flag("--pod-cidr"))
	for _, left := range c.Leftovers() {
		c.TB.Errorf("left behind: %s", left)
	}
	if err := os.RemoveAll(c.Dir); err != nil {
		c.TB.Errorf("data directory: %v", err)
	}
}
