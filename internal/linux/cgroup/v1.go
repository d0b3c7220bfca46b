package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// v1 maps a controller's name to the directory it is mounted on; controllers mounted together share
// one. The hybrid tree's unified part is "unified".
type v1 map[string]string

const unified = "unified"

// findV1 takes every directory of the mount that is a hierarchy. Symbolic links (cpu ->
// cpu,cpuacct) are other names of the same.
func findV1(mount string) (v1, error) {
	entries, err := os.ReadDir(mount)
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	h := v1{}
	for _, e := range entries {
		dir := filepath.Join(mount, e.Name())
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil || !e.IsDir() {
			continue
		}
		for name := range strings.SplitSeq(e.Name(), ",") {
			h[name] = dir
		}
	}
	for _, need := range []string{"cpu", "cpuset", "memory"} {
		if h[need] == "" {
			return nil, fmt.Errorf("cgroup: no cgroup v2 at %s and no %s controller of v1: mount them (mount -t "+
				"cgroup -o %s %s %s/%s)", mount, need, need, need, mount, need)
		}
	}
	return h, nil
}

func (h v1) version() int { return 1 }

func (h v1) roots() []string {
	var dirs []string
	for _, d := range h {
		dirs = append(dirs, d)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// ensure creates the directory in every hierarchy but the unified one, which only the runtime uses.
func (h v1) ensure(p string, v Values) error {
	for _, root := range h.roots() {
		if root == h[unified] {
			continue
		}
		if err := os.MkdirAll(filepath.Join(root, p), 0o755); err != nil {
			return err
		}
	}
	if err := h.fillCpuset(p); err != nil {
		return err
	}
	return h.write(p, v)
}

func (h v1) update(p string, v Values) error { return h.write(p, v) }

// fillCpuset copies cpus and memory nodes down into cgroups that have none: a task cannot enter
// those.
func (h v1) fillCpuset(p string) error {
	for _, level := range levels(p) {
		dir := filepath.Join(h["cpuset"], level)
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			if has, err := read(dir, name); err != nil || has != "" {
				if err != nil {
					return err
				}
				continue
			}
			parents, err := read(filepath.Dir(dir), name)
			if err != nil {
				return err
			}
			if err := write(dir, name, parents); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h v1) write(p string, v Values) error {
	set := func(controller, name, value string) error {
		if h[controller] == "" {
			return fmt.Errorf("%s: the %s controller is not mounted", name, controller)
		}
		return write(filepath.Join(h[controller], p), name, value)
	}
	if v.Shares != nil {
		if err := set("cpu", "cpu.shares", strconv.FormatUint(*v.Shares, 10)); err != nil {
			return err
		}
	}
	if err := h.writeQuota(p, v); err != nil {
		return err
	}
	if v.Memory != nil {
		if err := set("memory", "memory.limit_in_bytes", strconv.FormatInt(*v.Memory, 10)); err != nil {
			return err
		}
	}
	if v.Pids != nil {
		if err := set("pids", "pids.max", orMax(*v.Pids)); err != nil {
			return err
		}
	}
	for size, limit := range v.Hugepages {
		if h["hugetlb"] == "" {
			continue // a kernel without the controller counts no huge pages
		}
		if err := set("hugetlb", "hugetlb."+pageName(size)+".limit_in_bytes", strconv.FormatInt(limit, 10)); err !=
			nil {
			return err
		}
	}
	return nil
}

// writeQuota sets period and quota. The kernel checks each write against the parent's share, so a
// pair that is allowed may need the other order.
func (h v1) writeQuota(p string, v Values) error {
	dir := filepath.Join(h["cpu"], p)
	period := func() error {
		if v.Period == nil {
			return nil
		}
		return write(dir, "cpu.cfs_period_us", strconv.FormatUint(*v.Period, 10))
	}
	quota := func() error {
		if v.Quota == nil {
			return nil
		}
		return write(dir, "cpu.cfs_quota_us", strconv.FormatInt(*v.Quota, 10))
	}
	if err := errors.Join(period(), quota()); err == nil {
		return nil
	}
	_ = quota() // lowers the old quota as far as the old period allows; only the last write matters
	return errors.Join(period(), quota())
}

func (h v1) usage(p string) (Usage, error) {
	var u Usage
	dir := filepath.Join(h["memory"], p)
	if _, err := os.Stat(dir); err != nil {
		return u, err
	}
	stat := readStat(dir, "memory.stat")
	u.MemoryBytes = readUint(dir, "memory.usage_in_bytes")
	u.WorkingSetBytes = subtract(u.MemoryBytes, stat["total_inactive_file"])
	u.RSSBytes = stat["total_rss"]
	u.PageFaults, u.MajorPageFaults = stat["total_pgfault"], stat["total_pgmajfault"]
	u.MemoryLimitBytes = bounded(stat["hierarchical_memory_limit"])
	if h["cpuacct"] != "" {
		u.CPUNanos = readUint(filepath.Join(h["cpuacct"], p), "cpuacct.usage")
	}
	if h["pids"] != "" {
		u.Pids = readUint(filepath.Join(h["pids"], p), "pids.current")
	}
	return u, nil
}

// kill ends what runs in one hierarchy's directory. A frozen cgroup is thawed first: frozen tasks
// do not die.
func (h v1) kill(dir string) error {
	if h["freezer"] != "" && strings.HasPrefix(dir, h["freezer"]+"/") {
		walk(dir, func(d string) { _ = write(d, "freezer.state", "THAWED") })
	}
	return killAll(dir)
}
