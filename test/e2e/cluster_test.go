package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/test/up"
)

// cluster is one Gantry that a test started.
type cluster struct {
	*up.Cluster
	t *testing.T
}

// newCluster prepares a cluster of its own and has it removed, and checked for leftovers, when the
// test ends.
func newCluster(t *testing.T, flags ...string) *cluster {
	t.Helper()
	return &cluster{up.New(t, "gt", append([]string{"-v=2"}, flags...)...), t}
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
		program = filepath.Join(c.Bin, "kubectl")
	}
	cmd := exec.CommandContext(ctx, program, append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
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
	out, err := exec.Command(filepath.Join(c.Bin, "gantry"),
		append(args, "--kubeconfig", c.Kubeconfig)...).CombinedOutput()
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
	c.Cluster.As(c.t).Eventually(within, what, ok)
}
