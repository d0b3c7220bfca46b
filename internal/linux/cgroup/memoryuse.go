package cgroup

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gantry-project/gantry/internal/pod/usage"
)

// MemoryUse reads the memory of the cgroup at p, with everything below it. It reads three files,
// where Measure reads all. "/" is the node, which has no limit.
func (t *Tree) MemoryUse(p string) (usage.MemoryUse, error) {
	p = clean(p)
	dir := t.hierarchy.mainDir(p)
	if _, err := os.Stat(dir); err != nil {
		return usage.MemoryUse{}, fmt.Errorf("cgroup %s: %w", p, err)
	}
	names := [3]string{"memory.current", "inactive_file", "memory.max"}
	if t.hierarchy.version() == 1 {
		names = [3]string{"memory.usage_in_bytes", "total_inactive_file", "memory.limit_in_bytes"}
	}
	stat := readStat(dir, "memory.stat")
	used := readUint(dir, names[0])
	if used == 0 && p == "/" { // version 2's root has no memory.current
		used = stat["anon"] + stat["file"]
	}
	if used == 0 && len(stat) == 0 {
		return usage.MemoryUse{}, fmt.Errorf("cgroup %s: no %s and no memory.stat in %s: is the memory controller on?",
			p, names[0],
			filepath.Clean(dir))
	}
	return usage.MemoryUse{Bytes: used, WorkingSet: subtract(used, stat[names[1]]),
		Limit: bounded(readUint(dir, names[2]))}, nil
}
