package csidriver_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/gantry-project/gantry/internal/csidriver"
	"github.com/gantry-project/gantry/test/csisanity"
	"github.com/gantry-project/gantry/test/expect"

	"github.com/gantry-project/gantry/internal/linux/loop"
)

// start runs a driver in a new directory.
func start(t *testing.T) csidriver.Options {
	t.Helper()
	o := newOptions(t)
	run(t, o)
	return o
}

// newOptions are of a driver in a new directory, which is removed after the test.
func newOptions(t *testing.T) csidriver.Options {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skip("no mkfs.ext4")
	}
	dir, err := os.MkdirTemp("", "csi") // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	o := csidriver.Options{Dir: filepath.Join(dir, "volumes"), NodeID: "node-1",
		Endpoint: filepath.Join(dir, "csi.sock"), Version: "1"}
	t.Cleanup(func() {
		if err := loop.DetachAll(dir); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return o
}

func run(t *testing.T, o csidriver.Options) (stop func()) {
	t.Helper()
	d, err := csidriver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	waitListening(t, o.Endpoint)
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// waitListening waits until the socket takes connections: a client of gRPC that finds none stays
// idle.
func waitListening(t *testing.T, socket string) {
	t.Helper()
	expect.EventuallyNoError(t, "somebody listens at "+socket, func() error {
		c, err := net.Dial("unix", socket)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

// sanityMode is the variable that names the mode in a process that runs the suite for one.
const sanityMode = "GANTRY_SANITY_MODE"

// The suite of the CSI project, whole, for each kind of volume: csi-sanity of csi-test v5. Each
// mode has a process of its own: the suite runs once in one.
func TestSanity(t *testing.T) {
	modes := map[string]csisanity.Mode{
		"image":     {},
		"directory": {Parameters: map[string]string{"type": "directory"}},
		"raw":       {Raw: true},
	}
	if m, child := modes[os.Getenv(sanityMode)]; child {
		o := start(t)
		csisanity.Run(t, o.Endpoint, filepath.Dir(o.Dir), m)
		return
	}
	newOptions(t) // or skip
	for name := range modes {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSanity$", "-test.v")
			cmd.Env = append(os.Environ(), sanityMode+"="+name)
			out, err := cmd.CombinedOutput()
			if err != nil || !regexp.MustCompile("Ran [1-9][0-9]* of").Match(out) {
				t.Errorf("csi-sanity with %s volumes: got %v, want that all passes\n%s", name, err, out)
			}
		})
	}
}
