// Package machinetest makes machines for tests: as a description and as the files that a kernel
// shows of them in /sys.
package machinetest

import (
	"fmt"
	"io/fs"
	"strings"
	"testing/fstest"

	"github.com/gantry-project/gantry/internal/kubelet/machine"
)

// Shape is a machine whose parts are all alike.
type Shape struct {
	Sockets, NodesPerSocket int
	CoresPerNode, Threads   int
	CoresPerUncore          int    // 0: one cache for the node
	MemoryPerNode           uint64 // bytes
	HugePages               []machine.HugePages
	Siblings                bool // hyperthreads have neighbouring numbers, not the second half's
}

// Machine is a machine of the shape. Numbers are as Linux gives them on x86: nodes in the order of
// sockets, CPUs of a node together, second threads after all first ones unless Siblings is set.
func (s Shape) Machine() machine.Info {
	var info machine.Info
	nodes := s.Sockets * s.NodesPerSocket
	for id := range nodes {
		n := machine.Node{ID: id, Memory: s.MemoryPerNode, HugePages: s.HugePages}
		for other := range nodes {
			switch {
			case other == id:
				n.Distances = append(n.Distances, 10)
			case other/s.NodesPerSocket == id/s.NodesPerSocket:
				n.Distances = append(n.Distances, 12)
			default:
				n.Distances = append(n.Distances, 20+uint64(max(id-other, other-id)))
			}
		}
		for k := range s.CoresPerNode {
			number := id*s.CoresPerNode + k
			c := machine.Core{ID: number % (s.CoresPerNode * s.NodesPerSocket), Socket: id / s.NodesPerSocket}
			for t := range s.Threads {
				if s.Siblings {
					c.Threads = append(c.Threads, number*s.Threads+t)
				} else {
					c.Threads = append(c.Threads, t*nodes*s.CoresPerNode+number)
				}
			}
			if s.CoresPerUncore > 0 && s.CoresPerUncore < s.CoresPerNode {
				cache := number / s.CoresPerUncore
				c.UncoreCache = &cache
			}
			n.Cores = append(n.Cores, c)
		}
		info.Nodes = append(info.Nodes, n)
	}
	return info
}

// Shapes are machines of 1, 2, 4 and 8 NUMA nodes, by what they are like.
func Shapes() map[string]Shape {
	const gib = 1 << 30
	huge := []machine.HugePages{{PageSize: 2048, Count: 512}, {PageSize: 1048576, Count: 2}}
	return map[string]Shape{
		"1 node, virtual": {Sockets: 1, NodesPerSocket: 1, CoresPerNode: 4, Threads: 1,
			MemoryPerNode: 8 * gib},
		"1 node, hyperthreads": {Sockets: 1, NodesPerSocket: 1, CoresPerNode: 8, Threads: 2,
			MemoryPerNode: 32 * gib},
		"2 nodes in 2 sockets": {Sockets: 2, NodesPerSocket: 1, CoresPerNode: 10, Threads: 2,
			MemoryPerNode: 64 * gib, HugePages: huge},
		"4 nodes in 2 sockets": {Sockets: 2, NodesPerSocket: 2, CoresPerNode: 8, Threads: 2,
			MemoryPerNode: 64 * gib, HugePages: huge},
		"4 nodes, neighbours": {Sockets: 1, NodesPerSocket: 4, CoresPerNode: 6, Threads: 2,
			MemoryPerNode: 32 * gib, Siblings: true},
		"8 nodes, uncore caches": {Sockets: 2, NodesPerSocket: 4, CoresPerNode: 16, Threads: 2, CoresPerUncore: 8,
			MemoryPerNode: 96 * gib, HugePages: huge},
		"1 node, uncore caches": {Sockets: 1, NodesPerSocket: 1, CoresPerNode: 32, Threads: 2, CoresPerUncore: 4,
			MemoryPerNode: 128 * gib},
		"2 nodes, one thread each": {Sockets: 2, NodesPerSocket: 1, CoresPerNode: 12, Threads: 1,
			MemoryPerNode: 48 * gib},
	}
}

// Sys is the machine as a kernel shows it in /sys.
func Sys(info machine.Info) fs.FS {
	out := fstest.MapFS{}
	put := func(name, format string, a ...any) {
		out[name] = &fstest.MapFile{Data: []byte(fmt.Sprintf(format+"\n", a...))}
	}
	var all []string
	for _, n := range info.Nodes {
		dir := fmt.Sprintf("devices/system/node/node%d/", n.ID)
		var cpus []string
		threads := 0
		for _, c := range n.Cores {
			threads += len(c.Threads)
			for _, t := range c.Threads {
				cpus = append(cpus, fmt.Sprint(t))
			}
		}
		for _, c := range n.Cores {
			for _, t := range c.Threads {
				cpu := fmt.Sprintf("devices/system/cpu/cpu%d/", t)
				put(cpu+"topology/core_id", "%d", c.ID)
				put(cpu+"topology/physical_package_id", "%d", c.Socket)
				put(cpu+"cache/index3/level", "3")
				put(cpu+"cache/index3/id", "%d", cacheOf(n, c))
				put(cpu+"cache/index3/shared_cpu_list", "%s", sharers(n, c))
			}
		}
		all = append(all, cpus...)
		put(dir+"cpulist", "%s", strings.Join(cpus, ","))
		put(dir+"meminfo", "Node %d MemTotal:       %d kB\nNode %d MemFree: 1 kB", n.ID, n.Memory/1024, n.ID)
		put(dir+"distance", "%s", strings.Trim(fmt.Sprint(n.Distances), "[]"))
		for _, h := range n.HugePages {
			put(fmt.Sprintf("%shugepages/hugepages-%dkB/nr_hugepages", dir, h.PageSize), "%d", h.Count)
		}
	}
	put("devices/system/cpu/online", "%s", strings.Join(all, ","))
	return out
}

func cacheOf(n machine.Node, c machine.Core) int {
	if c.UncoreCache != nil {
		return *c.UncoreCache
	}
	return n.ID
}

// sharers are the CPUs that share the last level cache of a core.
func sharers(n machine.Node, c machine.Core) string {
	var out []string
	for _, o := range n.Cores {
		if cacheOf(n, o) == cacheOf(n, c) {
			for _, t := range o.Threads {
				out = append(out, fmt.Sprint(t))
			}
		}
	}
	return strings.Join(out, ",")
}
