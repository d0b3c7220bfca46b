package topologymanager

import (
	"fmt"
	"iter"
	"math/bits"
	"strings"
)

// Mask is a set of NUMA nodes by their numbers, 0 to 63. The zero Mask is empty.
type Mask uint64

// MaxNode is the highest NUMA node number that a Mask holds.
const MaxNode = 63

// NewMask returns the set of the nodes. A number outside 0 to MaxNode is an error.
func NewMask(nodes ...int) (Mask, error) {
	var m Mask
	for _, n := range nodes {
		if n < 0 || n > MaxNode {
			return 0, fmt.Errorf("NUMA node %d: the number must be in range 0-%d", n, MaxNode)
		}
		m |= 1 << n
	}
	return m, nil
}

// MaskOf is NewMask without the numbers that do not fit.
func MaskOf(nodes ...int) Mask {
	var m Mask
	for _, n := range nodes {
		if n >= 0 && n <= MaxNode {
			m |= 1 << n
		}
	}
	return m
}

// Count is how many nodes are in the set.
func (m Mask) Count() int { return bits.OnesCount64(uint64(m)) }

// IsSet tells whether the node is in the set.
func (m Mask) IsSet(node int) bool { return node >= 0 && node <= MaxNode && m&(1<<node) != 0 }

// Bits are the nodes in ascending order.
func (m Mask) Bits() []int {
	out := make([]int, 0, m.Count())
	for rest := uint64(m); rest != 0; rest &= rest - 1 {
		out = append(out, bits.TrailingZeros64(rest))
	}
	return out
}

// IsNarrowerThan tells whether m has fewer nodes than o, or as many with lower numbers.
func (m Mask) IsNarrowerThan(o Mask) bool {
	if a, b := m.Count(), o.Count(); a != b {
		return a < b
	}
	return m < o
}

// String prints the nodes as a list: 0,1.
func (m Mask) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(m.Bits()), " ", ","), "[]")
}

// Masks goes through all non-empty sets of the nodes: the small ones first, those of one size in
// the order of their nodes.
func Masks(nodes []int) iter.Seq[Mask] {
	return func(yield func(Mask) bool) {
		for size := 1; size <= len(nodes); size++ {
			if !masksOfSize(nodes, size, 0, yield) {
				return
			}
		}
	}
}

// masksOfSize goes through the sets that add size of the nodes to have; false: yield said stop.
func masksOfSize(nodes []int, size int, have Mask, yield func(Mask) bool) bool {
	if size == 0 {
		return yield(have)
	}
	for i := 0; i+size <= len(nodes); i++ {
		if !masksOfSize(nodes[i+1:], size-1, have|MaskOf(nodes[i]), yield) {
			return false
		}
	}
	return true
}
