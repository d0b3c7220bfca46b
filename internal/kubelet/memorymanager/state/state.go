package state

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// MemoryTable is the memory of one kind that a NUMA node has, in bytes.
type MemoryTable struct {
	TotalMemSize   uint64 `json:"total"`
	SystemReserved uint64 `json:"systemReserved"`
	Allocatable    uint64 `json:"allocatable"`
	Reserved       uint64 `json:"reserved"` // given to containers
	Free           uint64 `json:"free"`
}

// NUMANodeState is a NUMA node's memory.
type NUMANodeState struct {
	// of containers; one that has memory and huge pages counts twice
	NumberOfAssignments int                              `json:"numberOfAssignments"`
	MemoryMap           map[v1.ResourceName]*MemoryTable `json:"memoryMap"`
	// the nodes that memory is taken from together with this one; itself alone while there are none
	Cells []int `json:"cells"`
}

// NUMANodeMap is the machine's memory by node.
type NUMANodeMap map[int]*NUMANodeState

// Block is memory that a container has.
type Block struct {
	NUMAAffinity []int           `json:"numaAffinity"`
	Type         v1.ResourceName `json:"type"`
	Size         uint64          `json:"size"`
}

// ContainerMemoryAssignments are blocks by Pod uid and container.
type ContainerMemoryAssignments map[string]map[string][]Block

// PodEntry is what a Pod was given as a whole.
type PodEntry struct {
	MemoryBlocks []Block `json:"memoryBlocks,omitempty"`
}

// PodMemoryAssignments are those by Pod uid.
type PodMemoryAssignments map[string]PodEntry

// State is which memory belongs to whom.
type State struct {
	Machine     NUMANodeMap
	Assignments ContainerMemoryAssignments
	Pods        PodMemoryAssignments
}

// Clone is a copy that shares nothing.
func (s State) Clone() State {
	out := State{Machine: NUMANodeMap{}, Assignments: ContainerMemoryAssignments{}, Pods: PodMemoryAssignments{}}
	for id, n := range s.Machine {
		c := &NUMANodeState{NumberOfAssignments: n.NumberOfAssignments, Cells: slices.Clone(n.Cells),
			MemoryMap: map[v1.ResourceName]*MemoryTable{}}
		for name, t := range n.MemoryMap {
			table := *t
			c.MemoryMap[name] = &table
		}
		out.Machine[id] = c
	}
	for uid, list := range s.Assignments {
		out.Assignments[uid] = map[string][]Block{}
		for name, blocks := range list {
			out.Assignments[uid][name] = cloneBlocks(blocks)
		}
	}
	for uid, e := range s.Pods {
		out.Pods[uid] = PodEntry{MemoryBlocks: cloneBlocks(e.MemoryBlocks)}
	}
	return out
}

func cloneBlocks(blocks []Block) []Block {
	out := make([]Block, len(blocks))
	for i, b := range blocks {
		b.NUMAAffinity = slices.Clone(b.NUMAAffinity)
		out[i] = b
	}
	return out
}

// Set gives a container its blocks.
func (s *State) Set(uid, container string, blocks []Block) {
	if s.Assignments[uid] == nil {
		s.Assignments[uid] = map[string][]Block{}
	}
	s.Assignments[uid][container] = blocks
}

// Delete forgets a container.
func (s *State) Delete(uid, container string) {
	delete(s.Assignments[uid], container)
	if len(s.Assignments[uid]) == 0 {
		delete(s.Assignments, uid)
	}
}
