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
	u, err := t.memory(clean(p))
	if err == nil {
		u.Limit = bounded(readUint(t.hierarchy.mainDir(clean(p)), t.memoryFiles().limit))
	}
	return u, err
}

// WorkingSet is that of MemoryUse, in bytes; the limit is not read for it.
func (t *Tree) WorkingSet(p string) (uint64, error) {
	u, err := t.memory(clean(p))
	return u.WorkingSet, err
}

// memoryFiles are the names of a cgroup's files, and of a field of memory.stat.
type memoryFiles struct{ used, inactive, limit string }

func (t *Tree) memoryFiles() memoryFiles {
	if t.hierarchy.version() == 1 {
		return memoryFiles{"memory.usage_in_bytes", "total_inactive_file", "memory.limit_in_bytes"}
	}
	return memoryFiles{"memory.current", "inactive_file", "memory.max"}
}

// memory is MemoryUse without the limit.
func (t *Tree) memory(p string) (u usage.MemoryUse, err error) {
	dir, names := t.hierarchy.mainDir(p), t.memoryFiles()
	stat, _ := read(dir, "memory.stat")
	u.Bytes = readUint(dir, names.used)
	if u.Bytes == 0 && p == "/" { // version 2's root has no memory.current
		u.Bytes = statField(stat, "anon") + statField(stat, "file")
	}
	if u.Bytes == 0 && stat == "" {
		if _, err := os.Stat(dir); err != nil {
			return u, fmt.Errorf("cgroup %s: %w", p, err)
		}
		return u, fmt.Errorf("cgroup %s: no %s and no memory.stat in %s: is the memory controller on?", p, names.used,
			filepath.Clean(dir))
	}
	u.WorkingSet = subtract(u.Bytes, statField(stat, names.inactive))
	return u, nil
}
