package proc_test

import (
	"os"
	"testing"

	"github.com/gantry-project/gantry/internal/linux/proc"
)

// Of the cgroups of a process the one counts that upstream's kubelet accounts for.
func TestCgroupOfAProcess(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"version 2": {"0::/system.slice/kubelet.service\n", "/system.slice/kubelet.service"},
		"version 1": {"4:memory:/a\n3:cpu,cpuacct:/a\n2:pids:/b\n", "/a"},
		"version 1 with systemd": {"4:memory:/\n3:cpu,cpuacct:/\n1:name=systemd:/user.slice/x.scope\n0::/\n",
			"/user.slice/x.scope"},
		"not the same":   {"4:memory:/a\n3:cpu,cpuacct:/b\n", ""},
		"without memory": {"3:cpu,cpuacct:/b\n", ""},
		"of another end": {"x\n", ""},
	} {
		root := tree(t, map[string]string{"proc/7/cgroup": c.file})
		got, err := proc.Cgroup(root, 7)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
	}
	if _, err := proc.Cgroup(t.TempDir(), 7); !os.IsNotExist(err) {
		t.Errorf("no such process: got %v, want that it is not there", err)
	}
}
