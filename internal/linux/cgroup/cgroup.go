package cgroup

import (
	"errors"
	"os"
	"path/filepath"
)

// Values are the limits of one cgroup. Nil leaves the kernel's value. kubelet/resource has a type
// with the same fields.
type Values struct {
	Shares    *uint64           // cpu.shares, 2..262144; v2: cpu.weight
	Quota     *int64            // µs of cpu time per period, -1 is no limit; v1: cpu.cfs_quota_us, v2: cpu.max
	Period    *uint64           // µs
	Memory    *int64            // bytes, -1 is no limit; v1: memory.limit_in_bytes, v2: memory.max
	Pids      *int64            // processes, -1 is no limit; pids.max
	Hugepages map[int64]int64   // page size in bytes to limit in bytes
	Unified   map[string]string // v2 files written as they are
}

// Options configure a Tree.
type Options struct {
	Mount string // where cgroups are mounted; empty means /sys/fs/cgroup
	Root  string // the only subtree this Tree may write to, like /gantry-1 or /kubepods; never empty nor "/"
}

// Usage is the use of a cgroup and everything below it.
type Usage struct {
	CPUNanos         uint64 // cpu time since the cgroup was made
	MemoryBytes      uint64 // all memory charged, page cache included
	WorkingSetBytes  uint64 // memory without inactive page cache: what cannot be freed easily
	RSSBytes         uint64 // anonymous memory
	PageFaults       uint64
	MajorPageFaults  uint64
	MemoryLimitBytes uint64 // 0 when there is none
	Pids             uint64
}

// ErrOutside is returned for a path outside Options.Root.
var ErrOutside = errors.New("cgroup path is outside the tree's root")

// Tree is the part of the cgroup hierarchies below one root.
type Tree struct {
	opts      Options
	hierarchy hierarchy
}

// CountsSwap tells whether the kernel can bound the swap of each cgroup.
func (t *Tree) CountsSwap() bool {
	if h, ok := t.hierarchy.(v1); ok {
		_, err := os.Stat(filepath.Join(h["memory"], "memory.memsw.limit_in_bytes"))
		return err == nil
	}
	h, ok := t.hierarchy.(v2)
	if !ok {
		return false
	}
	found, err := filepath.Glob(filepath.Join(h.mount, "*", "memory.swap.max"))
	return err == nil && len(found) > 0
}

// Version returns 1 (hybrid hierarchies included) or 2.
func (t *Tree) Version() int { return t.hierarchy.version() }
