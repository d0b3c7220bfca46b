package csidriver

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/cli"
)

// What the driver cannot work with is refused before anything is made.
func TestUnusableFlagsAreRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the driver needs root")
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	dir := t.TempDir()
	for want, args := range map[string][]string{
		"--volumes-dir and --kubelet-dir are absolute paths": {"--provision=false", "--volumes-dir", "volumes"},
		"absolute paths, got kubelet":                        {"--provision=false", "--kubelet-dir", "kubelet"},
		"unable to load in-cluster configuration":            {"--volumes-dir", dir, "--kubelet-dir", dir},
		"no such file": {"--kubeconfig", dir + "/none"},
		"unknown flag": {"--no-such-flag"},
	} {
		c := New(cli.IO{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
		c.SetArgs(args)
		c.SilenceUsage, c.SilenceErrors = true, true
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", args, err, want)
		}
	}
	if left, err := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("something was made: %v (%v)", left, err)
	}
}
