package containerd_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/containerd"
)

// A containerd that is killed while it starts is started again, and each attempt is an event.
func TestAContainerdThatIsKilledWhileItStartsIsStartedAgain(t *testing.T) {
	n := newNode(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	n.cfg.Executable = filepath.Join(dir, "killed-twice")
	script := fmt.Sprintf("#!/bin/sh\nfor turn in 1 2; do mkdir %s/$turn 2>/dev/null && kill -9 $$; done\nexec %s "+
		"\"$@\"\n",
		dir, self)
	if err := os.WriteFile(n.cfg.Executable, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	c := n.start()
	for range 2 {
		e := n.await(containerd.Failed)
		if want := "containerd ended while it started: it was killed (signal: killed)"; e.Err == nil ||
			!strings.Contains(e.Err.Error(), want) {
			t.Errorf("a containerd that was killed: got %v, want %q", e.Err, want)
		}
	}
	if e := n.await(containerd.Started); e.PID != c.PID() {
		t.Errorf("started: got process %d, want %d", e.PID, c.PID())
	}
	if err := c.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}
