package machine

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"
)

// Info is a machine's NUMA nodes, by number.
type Info struct {
	Nodes []Node
}

// Node is a NUMA node: what shares a memory controller.
type Node struct {
	ID        int
	Memory    uint64 // bytes, those of huge pages included
	HugePages []HugePages
	Distances []uint64 // to the nodes 0, 1, 2, … as firmware tells; nil: not told
	Cores     []Core
}

// HugePages are the huge pages of one size that a node has.
type HugePages struct {
	PageSize uint64 // KiB
	Count    uint64
}

// Core is a physical core.
type Core struct {
	ID      int // unique in its socket
	Socket  int
	Threads []int // its logical CPUs that are online, ascending
	// the last level cache when only a part of the node's cores share it; nil: all do
	UncoreCache *int
}

// CPU is where a logical CPU is.
type CPU struct {
	NUMANode    int
	Socket      int
	Core        int // the lowest CPU of the core: unique on the machine
	UncoreCache int // the socket when the cache is not split
}

// Topology is a machine's logical CPUs with the counts that placing them needs.
type Topology struct {
	CPUs                                               map[int]CPU
	NumCPUs, NumCores, NumSockets, NumNodes, NumUncore int
}

// Topology is the placement view of a machine.
func (i Info) Topology() Topology {
	t := Topology{CPUs: map[int]CPU{}}
	sockets, nodes, uncore := map[int]bool{}, map[int]bool{}, map[int]bool{}
	for _, n := range i.Nodes {
		for _, c := range n.Cores {
			if len(c.Threads) == 0 {
				continue
			}
			t.NumCores++
			cache := c.Socket
			if c.UncoreCache != nil {
				cache = *c.UncoreCache
			}
			for _, cpu := range c.Threads {
				t.CPUs[cpu] = CPU{NUMANode: n.ID, Socket: c.Socket, Core: slices.Min(c.Threads), UncoreCache: cache}
			}
			sockets[c.Socket], nodes[n.ID], uncore[cache] = true, true, true
		}
	}
	t.NumCPUs, t.NumSockets, t.NumNodes, t.NumUncore = len(t.CPUs), len(sockets), len(nodes), len(uncore)
	return t
}

// HugePagesName is the resource that huge pages of a size in KiB are.
func HugePagesName(kib uint64) v1.ResourceName {
	return v1.ResourceName(v1.ResourceHugePagesPrefix + resource.NewQuantity(int64(kib)*1024,
		resource.BinarySI).String())
}

// Capacity is what the machine has of CPUs, memory and huge pages.
func (i Info) Capacity() v1.ResourceList {
	bytes := map[v1.ResourceName]uint64{v1.ResourceMemory: 0}
	for _, n := range i.Nodes {
		bytes[v1.ResourceMemory] += n.Memory
		for _, h := range n.HugePages {
			bytes[HugePagesName(h.PageSize)] += h.Count * h.PageSize * 1024
		}
	}
	out := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(i.Topology().NumCPUs), resource.DecimalSI)}
	for name, n := range bytes {
		out[name] = *resource.NewQuantity(int64(n), resource.BinarySI)
	}
	return out
}

// NodeIDs are the numbers of the NUMA nodes, ascending.
func (i Info) NodeIDs() []int {
	var out []int
	for _, n := range i.Nodes {
		out = append(out, n.ID)
	}
	slices.Sort(out)
	return out
}

// Distances are the distances of each node, by number.
func (i Info) Distances() map[int][]uint64 {
	out := map[int][]uint64{}
	for _, n := range i.Nodes {
		out[n.ID] = n.Distances
	}
	return out
}

// All are all logical CPUs.
func (t Topology) All() cpuset.CPUSet {
	ids := make([]int, 0, len(t.CPUs))
	for id := range t.CPUs {
		ids = append(ids, id)
	}
	return cpuset.New(ids...)
}

// CPUsPerCore is how many hyperthreads a core has, on average.
func (t Topology) CPUsPerCore() int { return t.NumCPUs / max(t.NumCores, 1) }

// CPUsPerUncore is how many CPUs share a last level cache, on average.
func (t Topology) CPUsPerUncore() int { return t.NumCPUs / max(t.NumUncore, 1) }

// InNodes are the CPUs of set that belong to one of the nodes.
func (t Topology) InNodes(set cpuset.CPUSet, nodes ...int) cpuset.CPUSet {
	return t.filter(set, func(c CPU) bool { return slices.Contains(nodes, c.NUMANode) })
}

// InSockets are the CPUs of set that belong to one of the sockets.
func (t Topology) InSockets(set cpuset.CPUSet, sockets ...int) cpuset.CPUSet {
	return t.filter(set, func(c CPU) bool { return slices.Contains(sockets, c.Socket) })
}

// SocketsOf are the sockets of the nodes, ascending.
func (t Topology) SocketsOf(nodes ...int) []int {
	var out []int
	for _, c := range t.CPUs {
		if slices.Contains(nodes, c.NUMANode) {
			out = append(out, c.Socket)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Nodes are the NUMA nodes that have CPUs, ascending.
func (t Topology) Nodes() []int {
	var out []int
	for _, c := range t.CPUs {
		out = append(out, c.NUMANode)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// WholeCores are the CPUs of all cores that have a CPU in set.
func (t Topology) WholeCores(set cpuset.CPUSet) cpuset.CPUSet {
	cores := map[int]bool{}
	for _, id := range set.UnsortedList() {
		if c, ok := t.CPUs[id]; ok {
			cores[c.Core] = true
		}
	}
	return t.filter(t.All(), func(c CPU) bool { return cores[c.Core] })
}

// SharesUncore tells whether all CPUs of set share one last level cache.
func (t Topology) SharesUncore(set cpuset.CPUSet) bool {
	list := set.UnsortedList()
	for _, id := range list {
		if a, ok := t.CPUs[id]; !ok && len(list) > 1 || a.UncoreCache != t.CPUs[list[0]].UncoreCache {
			return false
		}
	}
	return true
}

func (t Topology) filter(set cpuset.CPUSet, keep func(CPU) bool) cpuset.CPUSet {
	var out []int
	for _, id := range set.UnsortedList() {
		if c, ok := t.CPUs[id]; ok && keep(c) {
			out = append(out, id)
		}
	}
	return cpuset.New(out...)
}

func sortNodes(nodes []Node) {
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
}
