package containerd

import (
	"fmt"
	"strings"
	"testing"
)

// row: QOS-09
func TestSystemdKeepsTheCgroupsWhenConfigured(t *testing.T) {
	for _, systemd := range []bool{false, true} {
		text, err := Config{DataDir: "/data", BinDir: "/opt/gantry", StateDir: "/run/g", SystemdCgroup: systemd}.render(
			host{})
		if want := fmt.Sprintf("SystemdCgroup = %t\n", systemd); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("got error %v and\n%s\nwant %q in it", err, text, want)
		}
	}
}

// The shim is named by its type and found in PATH: a runtime that is given by a path containerd
// asks before each task for mounts it handles, by running the shim once more.
func TestTheShimIsFoundInPath(t *testing.T) {
	c := Config{DataDir: "/data", BinDir: "/opt/gantry", StateDir: "/run/g"}
	text, err := c.render(host{})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "runtime_path") || !strings.Contains(string(text),
		"BinaryName = '/opt/gantry/runc'") {
		t.Errorf("the configuration names the shim by its path, or not runc:\n%s", text)
	}
	for overrides, want := range map[string]string{
		"PATH=/usr/bin:/bin HOME=/root": "HOME=/root PATH=/opt/gantry:/usr/bin:/bin",
		"HOME=/root":                    "HOME=/root PATH=/opt/gantry",
		"PATH= PATHS=x":                 "PATHS=x PATH=/opt/gantry",
	} {
		if got := strings.Join(c.environment(strings.Fields(overrides)), " "); got != want {
			t.Errorf("%q becomes %q, want %q", overrides, got, want)
		}
	}
}
