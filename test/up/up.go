// Package up starts `gantry up` for a test: in a new directory, on free ports, with a network of
// its own, removed and checked for leftovers when the test ends. Roles runs several processes of
// Gantry, each with the flags that the test gives it. What is started is an instance of
// test/instance, which tools use without a test.
package up

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/test/binaries"
	"github.com/gantry-project/gantry/test/instance"
	"github.com/gantry-project/gantry/test/ports"
	"github.com/gantry-project/gantry/test/process"
)

// NodeReady is what `gantry up` prints when the node is Ready.
const NodeReady = "node ready"

// Cluster is one `gantry up`, which may be ended and started again. Its methods belong to the
// goroutine of the test.
type Cluster struct {
	TB         testing.TB
	Bin        string           // folder of built programs
	Dir        string           // data directory
	Kubeconfig string           // the administrator's
	Process    *process.Process // the last `gantry up`; nil before

	instance *instance.Instance
}

// New prepares a cluster; nothing runs yet. Its bridge is called after prefix, a few letters that
// are the package's own; flags are further ones of `gantry up`. The test is skipped where real
// containers cannot run.
func New(t testing.TB, prefix string, flags ...string) *Cluster {
	t.Helper()
	bin := binaries.Programs(t)
	i, err := instance.New(instance.Options{Binary: filepath.Join(bin, "gantry"), BinDir: bin, NodeIP: "127.0.0.1",
		Prefix: prefix, Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{TB: t, Bin: bin, Dir: i.Dir, Kubeconfig: i.Kubeconfig(), instance: i}
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
	if err := c.instance.Start(); err != nil {
		c.TB.Fatal(err)
	}
	c.Process = c.instance.Process("up")
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

// UpCommand is the command line with which Launch runs the program, and further flags.
func (c *Cluster) UpCommand(flags ...string) []string {
	return slices.Concat([]string{"up"}, c.instance.UpFlags(), flags)
}

// SetFlags sets the further flags of the next start.
func (c *Cluster) SetFlags(flags ...string) { c.instance.Flags(flags...) }

// Flag is the value of a flag of `gantry up`; empty when it is not given.
func (c *Cluster) Flag(name string) string { return flag(c.instance, name) }

func flag(i *instance.Instance, name string) string {
	all := i.UpFlags()
	if at := slices.Index(all, name); at >= 0 {
		return all[at+1]
	}
	return ""
}

// Leftovers names mounts, processes and links of this instance.
func (c *Cluster) Leftovers() []string { return leftovers(c.instance) }

func leftovers(i *instance.Instance) []string {
	out := instance.Mounts(i.Traces()...)
	if bridge := flag(i, "--bridge"); bridge != "" {
		if _, err := net.InterfaceByName(bridge); err == nil {
			out = append(out, "link "+bridge)
		}
	}
	return append(out, Processes(i.Dir)...)
}

// remove stops what runs, as a power cut would, and removes the instance.
func (c *Cluster) remove() {
	if c.Process != nil {
		if c.TB.Failed() {
			c.TB.Log(c.Process.Report())
		}
		c.Process.Kill()
	}
	remove(c.TB, c.instance)
}

// remove removes everything of an instance and checks that nothing is left.
func remove(t testing.TB, i *instance.Instance) {
	t.Helper()
	if err := i.Remove(); err != nil {
		t.Error(err)
	}
	for _, left := range leftovers(i) {
		t.Errorf("left behind: %s", left)
	}
}
