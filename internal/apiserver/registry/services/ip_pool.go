package services

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"net/netip"

	v1 "k8s.io/api/core/v1"
)

var (
	errAllocated  = errors.New("provided IP is already allocated")
	errNotInRange = errors.New("the provided network does not match the current range")
	errFull       = errors.New("range is full")
)

// ipPool is the allocation bitmap of one address range. Dynamic allocation prefers the upper part
// and leaves the static band for addresses that users request (KEP-3070). The Allocator's lock
// guards it.
type ipPool struct {
	family    v1.IPFamily
	prefix    netip.Prefix
	size      int // usable addresses; offset 0 is the first after the network address
	allocated bitmap
	static    int // size of the static band at the low end
	pick      func(n int) int
	closed    bool // its ServiceCIDR is deleted or being deleted: nothing is allocated
}

const maxPoolSize = 1 << 16

// newIPPool returns the pool of a range, of which the first 65,536 addresses at most are used; pick
// chooses random positions.
func newIPPool(cidr netip.Prefix, pick func(int) int) *ipPool {
	cidr = cidr.Masked()
	p := &ipPool{prefix: cidr, pick: pick, family: v1.IPv6Protocol}
	free := 1 // the network address
	if cidr.Addr().Is4() {
		p.family = v1.IPv4Protocol
		free = 2 // and the broadcast address
	}
	p.size = maxPoolSize
	if host := cidr.Addr().BitLen() - cidr.Bits(); host < 17 {
		p.size = max(0, 1<<host-free)
	}
	p.allocated = make(bitmap, (p.size+63)/64)
	p.static = staticBand(p.size)
	return p
}

// staticBand returns the size of the static band: a sixteenth of the range, at least 16 and at most
// 256; 0 for ranges of up to 16 addresses.
func staticBand(size int) int {
	const least, most, part = 16, 256, 16
	if size <= least {
		return 0
	}
	return min(max(least, size/part), most)
}

func (p *ipPool) contains(a netip.Addr) bool { return p.prefix.Contains(a) }

// offset returns the bit of an address; -1 if it is not in the range.
func (p *ipPool) offset(a netip.Addr) int {
	if !p.contains(a) {
		return -1
	}
	base, x := p.prefix.Addr().As16(), a.As16()
	d := new(big.Int).Sub(new(big.Int).SetBytes(x[:]), new(big.Int).SetBytes(base[:]))
	if !d.IsInt64() || d.Int64() < 1 || d.Int64() > int64(p.size) {
		return -1
	}
	return int(d.Int64()) - 1
}

// allocate allocates an address: errNotInRange or errAllocated if it cannot.
func (p *ipPool) allocate(ip string) error {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return fmt.Errorf("%q is not an IP address", ip)
	}
	i := p.offset(a)
	switch {
	case i < 0:
		return errNotInRange
	case p.allocated.get(i):
		return errAllocated
	}
	p.allocated.set(i, true)
	return nil
}

// release frees an address; nothing if it is not in the range.
func (p *ipPool) release(ip string) {
	if a, err := netip.ParseAddr(ip); err == nil {
		if i := p.offset(a); i >= 0 {
			p.allocated.set(i, false)
		}
	}
}

// allocateNext allocates a random free address; errFull if there is none.
func (p *ipPool) allocateNext() (string, error) {
	i := p.allocated.free(p.static, p.size, p.pick)
	if i < 0 {
		i = p.allocated.free(0, p.static, p.pick)
	}
	if i < 0 {
		return "", errFull
	}
	p.allocated.set(i, true)
	b := p.prefix.Addr().As16()
	low := binary.BigEndian.Uint64(b[8:]) + uint64(i) + 1
	binary.BigEndian.PutUint64(b[8:], low)
	return netip.AddrFrom16(b).Unmap().String(), nil
}

// portPool is the allocation bitmap of the node ports.
type portPool struct {
	low, high int
	allocated bitmap
	static    int
	pick      func(int) int
}

// newPortPool returns the pool of the ports from low to high inclusive; pick is as for newIPPool.
func newPortPool(low, high int, pick func(int) int) *portPool {
	size := high - low + 1
	const least, most, part = 16, 128, 32
	static := 0
	if size > least {
		static = min(max(least, size/part), most)
	}
	return &portPool{low: low, high: high, allocated: make(bitmap, (size+63)/64), static: static, pick: pick}
}

// allocate allocates a port. The error has upstream's text: out of range or allocated already.
func (p *portPool) allocate(n int) error {
	switch {
	case n < p.low || n > p.high:
		return fmt.Errorf("provided port is not in the valid range. The range of valid ports is %d-%d", p.low, p.high)
	case p.allocated.get(n - p.low):
		return errors.New("provided port is already allocated")
	}
	p.allocated.set(n-p.low, true)
	return nil
}

// release frees a port; nothing if it is out of range.
func (p *portPool) release(n int) {
	if n >= p.low && n <= p.high {
		p.allocated.set(n-p.low, false)
	}
}

// allocateNext allocates a random free port; errFull if there is none.
func (p *portPool) allocateNext() (int, error) {
	size := p.high - p.low + 1
	i := p.allocated.free(p.static, size, p.pick)
	if i < 0 {
		i = p.allocated.free(0, p.static, p.pick)
	}
	if i < 0 {
		return 0, errFull
	}
	p.allocated.set(i, true)
	return p.low + i, nil
}

// bitmap is a set of small integers.
type bitmap []uint64

func (b bitmap) get(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

func (b bitmap) set(i int, on bool) {
	if on {
		b[i/64] |= 1 << (i % 64)
	} else {
		b[i/64] &^= 1 << (i % 64)
	}
}

// free returns a free bit in [from, to), searching from a random position; -1 if there is none.
func (b bitmap) free(from, to int, pick func(int) int) int {
	n := to - from
	if n <= 0 {
		return -1
	}
	start := pick(n)
	for k := range n {
		if i := from + (start+k)%n; !b.get(i) {
			return i
		}
	}
	return -1
}
