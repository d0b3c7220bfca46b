package containerd

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// An instance is found by its configuration, as long as its containerd takes connections.
func TestRunningInstancesAreFound(t *testing.T) {
	dir := t.TempDir()
	for id, c := range map[string]struct {
		root   string
		listen bool
	}{"a": {"/var/lib/gantry/containerd/root", true}, "b": {"/tmp/two/containerd/root", true},
		"c": {"/tmp/ended/containerd/root", false}, "d": {"/elsewhere", true}} {
		if err := os.Mkdir(filepath.Join(dir, id), 0o755); err != nil {
			t.Fatal(err)
		}
		text := "# Written by Gantry\nversion = 4\nroot = '" + c.root + "'\nstate = '/run/x'\n[plugins]\n  root = " +
			"'other'\n"
		if err := os.WriteFile(filepath.Join(dir, id, "containerd.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if c.listen {
			l, err := net.Listen("unix", filepath.Join(dir, id, "containerd.sock"))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
		}
	}
	if got := runningIn(dir); !slices.Equal(got, []string{"/tmp/two", "/var/lib/gantry"}) {
		t.Errorf("found: got %q, want %q", got, []string{"/tmp/two", "/var/lib/gantry"})
	}
	if got := runningIn(filepath.Join(dir, "none")); got != nil {
		t.Errorf("found %q where nothing is, want nil", got)
	}
}
