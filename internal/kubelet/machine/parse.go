package machine

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
)

const (
	cpuDir  = "devices/system/cpu"
	nodeDir = "devices/system/node"
)

// Parse reads a machine from its /sys. memory is the machine's in bytes: a kernel without NUMA does
// not tell it by node. The error names what does not read.
func Parse(sys fs.FS, memory uint64) (Info, error) {
	online, err := onlineCPUs(sys)
	if err != nil {
		return Info{}, err
	}
	dirs, err := fs.Glob(sys, nodeDir+"/node[0-9]*")
	if err != nil {
		return Info{}, err
	}
	var info Info
	for _, dir := range dirs {
		n, err := parseNode(sys, dir, online)
		if err != nil {
			return Info{}, err
		}
		info.Nodes = append(info.Nodes, n)
	}
	if len(dirs) == 0 {
		if info.Nodes, err = nodesBySocket(sys, online, memory); err != nil {
			return Info{}, err
		}
	}
	sortNodes(info.Nodes)
	if len(info.Topology().CPUs) == 0 {
		return Info{}, errors.New("could not detect number of cpus")
	}
	return info, nil
}

// onlineCPUs are the CPUs that run: all that have a directory where the kernel cannot take CPUs
// off.
func onlineCPUs(sys fs.FS) (cpuset.CPUSet, error) {
	raw, err := fs.ReadFile(sys, cpuDir+"/online")
	if err == nil {
		set, err := cpuset.Parse(strings.TrimSpace(string(raw)))
		if err != nil {
			return set, fmt.Errorf("%s/online: %w", cpuDir, err)
		}
		return set, nil
	}
	dirs, err := fs.Glob(sys, cpuDir+"/cpu[0-9]*")
	if err != nil {
		return cpuset.New(), err
	}
	var ids []int
	for _, d := range dirs {
		if id, err := strconv.Atoi(strings.TrimPrefix(path.Base(d), "cpu")); err == nil {
			ids = append(ids, id)
		}
	}
	return cpuset.New(ids...), nil
}

func parseNode(sys fs.FS, dir string, online cpuset.CPUSet) (Node, error) {
	var n Node
	var err error
	if n.ID, err = strconv.Atoi(strings.TrimPrefix(path.Base(dir), "node")); err != nil {
		return n, fmt.Errorf("%s: %w", dir, err)
	}
	raw, err := fs.ReadFile(sys, dir+"/cpulist")
	if err != nil {
		return n, err
	}
	cpus, err := cpuset.Parse(strings.TrimSpace(string(raw)))
	if err != nil {
		return n, fmt.Errorf("%s/cpulist: %w", dir, err)
	}
	if n.Cores, err = parseCores(sys, cpus.Intersection(online)); err != nil {
		return n, err
	}
	addUncoreCaches(sys, &n)
	if n.Memory, err = nodeMemory(sys, dir); err != nil {
		return n, err
	}
	if n.HugePages, err = hugePages(sys, dir+"/hugepages"); err != nil {
		return n, err
	}
	if raw, err := fs.ReadFile(sys, dir+"/distance"); err == nil {
		for _, f := range strings.Fields(string(raw)) {
			d, err := strconv.ParseUint(f, 10, 64)
			if err != nil {
				return n, fmt.Errorf("%s/distance: %w", dir, err)
			}
			n.Distances = append(n.Distances, d)
		}
	}
	return n, nil
}

// parseCores gathers CPUs by the core that they are threads of. A CPU without a topology is left
// out, as upstream does.
func parseCores(sys fs.FS, cpus cpuset.CPUSet) ([]Core, error) {
	type key struct{ socket, core int }
	at := map[key]int{}
	var out []Core
	for _, id := range cpus.List() {
		dir := fmt.Sprintf("%s/cpu%d/topology/", cpuDir, id)
		core, err := number(sys, dir+"core_id")
		socket, err2 := number(sys, dir+"physical_package_id")
		if err := errors.Join(err, err2); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		k := key{socket, core}
		i, seen := at[k]
		if !seen {
			i = len(out)
			at[k] = i
			out = append(out, Core{ID: core, Socket: socket})
		}
		out[i].Threads = append(out[i].Threads, id)
	}
	return out, nil
}

// addUncoreCaches notes the caches above level 2 that do not serve the whole node. Many virtual
// machines tell nothing of caches: then there are none.
func addUncoreCaches(sys fs.FS, n *Node) {
	for i := range n.Cores {
		c := &n.Cores[i]
		dirs, err := fs.Glob(sys, fmt.Sprintf("%s/cpu%d/cache/index[0-9]*", cpuDir, c.Threads[0]))
		if err != nil {
			return
		}
		slices.Sort(dirs)
		for _, dir := range dirs {
			level, err := number(sys, dir+"/level")
			id, err2 := number(sys, dir+"/id")
			raw, err3 := fs.ReadFile(sys, dir+"/shared_cpu_list")
			shared, err4 := cpuset.Parse(strings.TrimSpace(string(raw)))
			if errors.Join(err, err2, err3, err4) != nil {
				return
			}
			if level > 2 && shared.Size() != len(n.Cores)*len(c.Threads) && c.UncoreCache == nil {
				c.UncoreCache = &id
			}
		}
	}
}

func nodeMemory(sys fs.FS, dir string) (uint64, error) {
	raw, err := fs.ReadFile(sys, dir+"/meminfo")
	if err != nil {
		return 0, nil // a node of CPUs only may have none
	}
	for line := range strings.Lines(string(raw)) {
		_, rest, found := strings.Cut(line, "MemTotal:")
		if !found {
			continue
		}
		kib, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 53)
		if err != nil {
			return 0, fmt.Errorf("%s/meminfo: %w", dir, err)
		}
		return kib * 1024, nil
	}
	return 0, fmt.Errorf("%s/meminfo: no MemTotal", dir)
}

func hugePages(sys fs.FS, dir string) ([]HugePages, error) {
	dirs, err := fs.Glob(sys, dir+"/hugepages-*kB")
	if err != nil {
		return nil, err
	}
	var out []HugePages
	for _, d := range dirs {
		size := strings.TrimSuffix(strings.TrimPrefix(path.Base(d), "hugepages-"), "kB")
		kib, err := strconv.ParseUint(size, 10, 53)
		count, err2 := number(sys, d+"/nr_hugepages")
		if err := errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("%s: %w", d, err)
		}
		out = append(out, HugePages{PageSize: kib, Count: uint64(max(count, 0))})
	}
	slices.SortFunc(out, func(a, b HugePages) int { return cmp.Compare(a.PageSize, b.PageSize) })
	return out, nil
}

// nodesBySocket takes each socket for a node, where the kernel knows no NUMA. Their shares of the
// memory are known only of a single one.
func nodesBySocket(sys fs.FS, online cpuset.CPUSet, memory uint64) ([]Node, error) {
	cores, err := parseCores(sys, online)
	if err != nil {
		return nil, err
	}
	var out []Node
	for _, c := range cores {
		i := slices.IndexFunc(out, func(n Node) bool { return n.ID == c.Socket })
		if i < 0 {
			i = len(out)
			out = append(out, Node{ID: c.Socket})
		}
		out[i].Cores = append(out[i].Cores, c)
	}
	for i := range out {
		addUncoreCaches(sys, &out[i])
	}
	if len(out) == 1 {
		out[0].Memory = memory
		out[0].HugePages, err = hugePages(sys, "kernel/mm/hugepages")
	}
	return out, err
}

func number(sys fs.FS, file string) (int, error) {
	raw, err := fs.ReadFile(sys, file)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return n, nil
}
