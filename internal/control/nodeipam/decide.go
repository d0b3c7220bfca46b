package nodeipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Default prefix lengths of node CIDRs, as upstream's (--node-cidr-mask-size-ipv4, -ipv6).
const (
	DefaultMaskIPv4 = 24
	DefaultMaskIPv6 = 64
)

// maxSubnets bounds the bits between the cluster's and the nodes' prefix lengths, as upstream's.
const maxSubnets = 16

// CIDRRange is one cluster CIDR from which node CIDRs are allocated.
type CIDRRange struct {
	Cluster netip.Prefix
	Bits    int // prefix length of node CIDRs

	occupied map[int]int // number of holders by CIDR index; occupied ranges may overlap
	next     int         // where the search continues, so that a released CIDR is reused last
	counts   Counts
}

// Counts are what has happened to a range: CIDRs that were taken and set free, and for each request
// how many taken ones were passed before a free one.
type Counts struct {
	Allocated, Released int
	Tries               []int
}

// Allocator is the allocation of node CIDRs. It is not safe for concurrent use.
type Allocator struct {
	Ranges    []*CIDRRange
	allocated map[string][]netip.Prefix
}

// MaskSizes are the prefix lengths of node CIDRs; 0: the default.
type MaskSizes struct{ IPv4, IPv6 int }

// NewAllocator parses a comma-separated list of cluster CIDRs: one, or one of each IP family.
// Reserved ranges (Services) are never allocated.
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

// Occupy records a node's CIDRs, wherever they come from, replacing earlier ones.
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

// Release releases a node's CIDRs.
func (b *Allocator) Release(node string) {
	for _, p := range b.allocated[node] {
		b.mark(p, -1)
	}
	delete(b.allocated, node)
}

// Allocate returns a free CIDR of each cluster CIDR for the node, the same until it is released;
// Exhausted if there is none.
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

// Exhausted means that no CIDR of a range is free.
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

// mark adds by to the holders of the CIDRs that p overlaps.
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
			was := r.occupied[i]
			if r.occupied[i] += by; r.occupied[i] <= 0 {
				delete(r.occupied, i)
			}
			switch {
			case was == 0 && by > 0:
				r.counts.Allocated++
			case was > 0 && r.occupied[i] == 0:
				r.counts.Released++
			}
		}
	}
}

func (r *CIDRRange) size() int { return 1 << (r.Bits - r.Cluster.Bits()) }

func (r *CIDRRange) nextFree() (netip.Prefix, bool) {
	for i := range r.size() {
		if at := (r.next + i) % r.size(); r.occupied[at] == 0 {
			r.counts.Tries = append(r.counts.Tries, i)
			return r.subnet(at), true
		}
	}
	return netip.Prefix{}, false
}

// index returns the index of the CIDR with address a.
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

// Parse parses a Node's CIDRs and drops invalid ones.
func Parse(texts []string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		if p, err := netip.ParsePrefix(t); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}
