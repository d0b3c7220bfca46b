package nodeipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Default sizes of a node's ranges, as upstream's (--node-cidr-mask-size-ipv4, -ipv6).
const (
	DefaultMaskIPv4 = 24
	DefaultMaskIPv6 = 64
)

// maxSubnets is how many bits of a cluster's range may tell nodes apart, as upstream's.
const maxSubnets = 16

// CIDRRange is one range of the cluster's Pods that nodes get parts of.
type CIDRRange struct {
	Cluster netip.Prefix
	Bits    int // length of a node's part

	occupied map[int]int // how many holders a part has; foreign ranges may overlap
	next     int         // where the search goes on: a part that was given back rests
}

// Allocator is who has which parts.
type Allocator struct {
	Ranges    []*CIDRRange
	allocated map[string][]netip.Prefix
}

// MaskSizes are the lengths of nodes' parts; 0 takes the default.
type MaskSizes struct{ IPv4, IPv6 int }

// NewAllocator checks a list of cluster ranges with a comma between: one, or one of each family.
// Reserved ranges (of Services) are given to no node.
func NewAllocator(cluster string, sizes MaskSizes, reserved ...netip.Prefix) (*Allocator, error) {
	b := &Allocator{allocated: map[string][]netip.Prefix{}}
	for _, text := range strings.Split(cluster, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("cluster range %q: %w; write it like 10.244.0.0/16 in --cluster-cidr", text, err)
		}
		r := &CIDRRange{Cluster: p.Masked(), Bits: sizes.bits(p), occupied: map[int]int{}}
		switch {
		case r.Bits < p.Bits():
			return nil, fmt.Errorf("a node's part of %s cannot be a /%d: it must be smaller than the whole; correct %s",
				r.Cluster, r.Bits, flag(p))
		case r.Bits-p.Bits() > maxSubnets:
			return nil, fmt.Errorf("%s in parts of /%d: the cluster's range may have at most %d bits fewer than a "+
				"node's; correct --cluster-cidr or %s", r.Cluster, r.Bits, maxSubnets, flag(p))
		case p.Addr().BitLen()-r.Bits < 3:
			return nil, fmt.Errorf("a node's part of %s cannot be a /%d: at least 3 bits must be free; correct %s",
				r.Cluster, r.Bits, flag(p))
		}
		b.Ranges = append(b.Ranges, r)
	}
	if len(b.Ranges) > 2 || len(b.Ranges) == 2 && b.Ranges[0].Cluster.Addr().Is4() == b.Ranges[1].Cluster.Addr().Is4() {
		return nil, fmt.Errorf("cluster ranges %q: one range, or one IPv4 and one IPv6 range in --cluster-cidr",
			cluster)
	}
	for _, p := range reserved {
		b.mark(p, 1)
	}
	return b, nil
}

func (s MaskSizes) bits(p netip.Prefix) int {
	n, usual := s.IPv4, DefaultMaskIPv4
	if p.Addr().Is6() {
		n, usual = s.IPv6, DefaultMaskIPv6
	}
	if n == 0 {
		n = usual
	}
	return n
}

func flag(p netip.Prefix) string {
	if p.Addr().Is6() {
		return "--node-cidr-mask-size-ipv6"
	}
	return "--node-cidr-mask-size-ipv4"
}

// Allocated is what a node has.
func (b *Allocator) Allocated(node string) []netip.Prefix { return b.allocated[node] }

// Occupy enters that a node has these ranges, wherever it got them, instead of what it had before.
func (b *Allocator) Occupy(node string, ranges []netip.Prefix) {
	if slices.Equal(b.allocated[node], ranges) {
		return
	}
	b.Release(node)
	for _, p := range ranges {
		b.mark(p, 1)
	}
	b.allocated[node] = ranges
}

// Release takes everything back from a node.
func (b *Allocator) Release(node string) {
	for _, p := range b.allocated[node] {
		b.mark(p, -1)
	}
	delete(b.allocated, node)
}

// Allocate gives a node a part of every range that is free, and the same again until it is
// released.
func (b *Allocator) Allocate(node string) ([]netip.Prefix, error) {
	if have := b.allocated[node]; have != nil {
		return have, nil
	}
	var out []netip.Prefix
	for _, r := range b.Ranges {
		p, ok := r.nextFree()
		if !ok {
			return nil, &Exhausted{r.Cluster, r.Bits, len(r.occupied)}
		}
		out = append(out, p)
	}
	b.Occupy(node, out)
	for i, r := range b.Ranges {
		r.next = r.index(out[i].Addr()) + 1
	}
	return out, nil
}

// Exhausted tells that no part of a range is free.
type Exhausted struct {
	Cluster netip.Prefix
	Bits    int
	Used    int
}

func (e *Exhausted) Error() string {
	return fmt.Sprintf("CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range: "+
		"all %d parts of /%d of %s are in use; remove Nodes that are gone or choose a wider --cluster-cidr", e.Used,
		e.Bits, e.Cluster)
}

// mark counts holders of the parts that p touches.
func (b *Allocator) mark(p netip.Prefix, by int) {
	for _, r := range b.Ranges {
		if !r.Cluster.Overlaps(p) {
			continue
		}
		first, last := 0, r.size()-1
		if p.Bits() > r.Cluster.Bits() {
			first = r.index(p.Masked().Addr())
			last = first
			if p.Bits() < r.Bits {
				last += 1<<(r.Bits-p.Bits()) - 1
			}
		}
		for i := first; i <= last; i++ {
			if r.occupied[i] += by; r.occupied[i] <= 0 {
				delete(r.occupied, i)
			}
		}
	}
}

func (r *CIDRRange) size() int { return 1 << (r.Bits - r.Cluster.Bits()) }

func (r *CIDRRange) nextFree() (netip.Prefix, bool) {
	for i := range r.size() {
		if at := (r.next + i) % r.size(); r.occupied[at] == 0 {
			return r.subnet(at), true
		}
	}
	return netip.Prefix{}, false
}

// index is the number of the part an address lies in.
func (r *CIDRRange) index(a netip.Addr) int {
	n, b := 0, a.AsSlice()
	for bit := r.Cluster.Bits(); bit < r.Bits; bit++ {
		n = n<<1 | int(b[bit/8]>>(7-bit%8)&1)
	}
	return n
}

func (r *CIDRRange) subnet(n int) netip.Prefix {
	b := r.Cluster.Addr().AsSlice()
	for bit := r.Bits - 1; bit >= r.Cluster.Bits(); bit-- {
		b[bit/8] |= byte(n&1) << (7 - bit%8)
		n >>= 1
	}
	a, _ := netip.AddrFromSlice(b)
	return netip.PrefixFrom(a, r.Bits)
}

// Parse reads a Node's ranges; what is no range is left out.
func Parse(texts []string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		if p, err := netip.ParsePrefix(t); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}
