package cgroup_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/linux/cgroup"
	"github.com/gantry-project/gantry/internal/pod/usage"
)

func TestMemoryUse(t *testing.T) {
	long := strings.Repeat("filler 12345\n", 1000) // more than one reading
	for version, files := range map[string]map[string]string{
		"1": {"cpu/cgroup.procs": "", "cpuset/cgroup.procs": "", "memory/cgroup.procs": "",
			"memory/g/p/cgroup.procs": "", "memory/g/p/memory.usage_in_bytes": "1000\n",
			"memory/g/p/memory.stat":           "inactive_file 1\n" + long + "total_inactive_file 300\n",
			"memory/g/p/memory.limit_in_bytes": "4096\n",
			"memory/g/free/cgroup.procs":       "", "memory/g/free/memory.usage_in_bytes": "10\n",
			"memory/g/free/memory.limit_in_bytes": "9223372036854771712\n", "memory/g/none/cgroup.procs": ""},
		"2": {"cgroup.controllers": "memory", "memory.stat": "anon 7\nfile 5\nanon_thp 1\ninactive_file 2\n",
			"g/p/cgroup.procs": "", "g/p/memory.current": "1000\n", "g/p/memory.max": "4096\n",
			"g/p/memory.stat":     "workingset_inactive_file 1\n" + long + "inactive_file 300\n",
			"g/free/cgroup.procs": "", "g/free/memory.current": "10\n", "g/free/memory.max": "max\n",
			"g/none/cgroup.procs": ""},
	} {
		tree, err := cgroup.Open(cgroup.Options{Mount: fixture(t, files), Root: "/g"})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]usage.MemoryUse{"/g/p": {Bytes: 1000, WorkingSet: 700, Limit: 4096},
			"/g/free": {Bytes: 10, WorkingSet: 10}}
		if version == "2" {
			want["/"] = usage.MemoryUse{Bytes: 12, WorkingSet: 10}
		}
		for at, want := range want {
			got, err := tree.MemoryUse(at)
			set, err2 := tree.WorkingSet(at)
			if err != nil || err2 != nil || got != want || set != want.WorkingSet {
				t.Errorf("version %s, %s: got %+v, %v, set %d, %v, want %+v", version, at, got, err, set, err2,
					want)
			}
		}
		if _, err := tree.WorkingSet("/g/gone"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("version %s, no cgroup: got error %v, want that it does not exist", version, err)
		}
		const question = "is the memory controller on?"
		if _, err := tree.MemoryUse("/g/none"); err == nil || !strings.Contains(err.Error(), question) {
			t.Errorf("version %s, no files: got error %v, want a question after the controller", version, err)
		}
	}
}
