package nodecidr

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Default sizes of a node's ranges, as upstream's (--node-cidr-mask-size-ipv4, -ipv6).
const (
	MaskIPv4 = 24
	MaskIPv6 = 64
)

// most is how many bits of a cluster's range may tell nodes apart, as upstream's.
const most = 16

// Range is one range of the cluster's Pods that nodes get parts of.
type Range struct {
	Cluster netip.Prefix
	Bits    int // length of a node's part

	parts map[int]int // how many holders a part has; foreign ranges may overlap
	next  int         // where the search goes on: a part that was given back rests
}

// Book is who has which parts.
type Book struct {
	Ranges []*Range
	held   map[string][]netip.Prefix
}

// Sizes are the lengths of nodes' parts; 0 takes the default.
type Sizes struct{ IPv4, IPv6 int }

// NewBook checks a list of cluster ranges with a comma between: one, or one of each family. Reserved ranges (of Services) are given to no node.
func NewBook(cluster string, sizes Sizes, reserved ...netip.Prefix) (*Book, error) {
	b := &Book{held: map[string][]netip.Prefix{}}
	for _, text := range strings.Split(cluster, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("cluster range %q: %w; write it like 10.244.0.0/16 in --cluster-cidr", text, err)
		}
		r := &Range{Cluster: p.Masked(), Bits: sizes.bits(p), parts: map[int]int{}}
		switch {
		case r.Bits < p.Bits():
			return nil, fmt.Errorf("a node's part of %s cannot be a /%d: it must be smaller than the whole; correct %s", r.Cluster, r.Bits, flag(p))
		case r.Bits-p.Bits() > most:
			return nil, fmt.Errorf("%s in parts of /%d: the cluster's range may have at most %d bits fewer than a node's; correct --cluster-cidr or %s", r.Cluster, r.Bits, most, flag(p))
		case p.Addr().BitLen()-r.Bits < 3:
			return nil, fmt.Errorf("a node's part of %s cannot be a /%d: at least 3 bits must be free; correct %s", r.Cluster, r.Bits, flag(p))
		}
		b.Ranges = append(b.Ranges, r)
	}
	if len(b.Ranges) > 2 || len(b.Ranges) == 2 && b.Ranges[0].Cluster.Addr().Is4() == b.Ranges[1].Cluster.Addr().Is4() {
		return nil, fmt.Errorf("cluster ranges %q: one range, or one IPv4 and one IPv6 range in --cluster-cidr", cluster)
	}
	for _, p := range reserved {
		b.mark(p, 1)
	}
	return b, nil
}

func (s Sizes) bits(p netip.Prefix) int {
	n, usual := s.IPv4, MaskIPv4
	if p.Addr().Is6() {
		n, usual = s.IPv6, MaskIPv6
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

// Held is what a node has.
func (b *Book) Held(node string) []netip.Prefix { return b.held[node] }

// Hold enters that a node has these ranges, wherever it got them, instead of what it had before.
func (b *Book) Hold(node string, ranges []netip.Prefix) {
	if slices.Equal(b.held[node], ranges) {
		return
	}
	b.Release(node)
	for _, p := range ranges {
		b.mark(p, 1)
	}
	b.held[node] = ranges
}

// Release takes everything back from a node.
func (b *Book) Release(node string) {
	for _, p := range b.held[node] {
		b.mark(p, -1)
	}
	delete(b.held, node)
}

// Grant gives a node a part of every range that is free, and the same again until it is released.
func (b *Book) Grant(node string) ([]netip.Prefix, error) {
	if have := b.held[node]; have != nil {
		return have, nil
	}
	var out []netip.Prefix
	for _, r := range b.Ranges {
		p, ok := r.free()
		if !ok {
			return nil, &Exhausted{r.Cluster, r.Bits, len(r.parts)}
		}
		out = append(out, p)
	}
	b.Hold(node, out)
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
	return fmt.Sprintf("CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range: all %d parts of /%d of %s are in use; remove Nodes that are gone or choose a wider --cluster-cidr", e.Used, e.Bits, e.Cluster)
}

// mark counts holders of the parts that p touches.
func (b *Book) mark(p netip.Prefix, by int) {
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
			if r.parts[i] += by; r.parts[i] <= 0 {
				delete(r.parts, i)
			}
		}
	}
}

func (r *Range) size() int { return 1 << (r.Bits - r.Cluster.Bits()) }

func (r *Range) free() (netip.Prefix, bool) {
	for i := range r.size() {
		if at := (r.next + i) % r.size(); r.parts[at] == 0 {
			return r.part(at), true
		}
	}
	return netip.Prefix{}, false
}

// index is the number of the part an address lies in.
func (r *Range) index(a netip.Addr) int {
	n, b := 0, a.AsSlice()
	for bit := r.Cluster.Bits(); bit < r.Bits; bit++ {
		n = n<<1 | int(b[bit/8]>>(7-bit%8)&1)
	}
	return n
}

func (r *Range) part(n int) netip.Prefix {
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
