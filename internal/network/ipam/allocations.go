package ipam

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
)

// Port is a mapping of a host port to a container port.
type Port struct {
	// HostIP is the only host address on which the port is open; invalid or unspecified: all
	// addresses.
	HostIP        netip.Addr `json:"hostIP,omitzero"`
	HostPort      uint16     `json:"hostPort"`
	ContainerPort uint16     `json:"containerPort"`
	// Protocol is "tcp", "udp" or "sctp".
	Protocol string `json:"protocol"`
}

// AnyIP reports whether the port is open on all addresses of the host.
func (p Port) AnyIP() bool { return !p.HostIP.IsValid() || p.HostIP.IsUnspecified() }

// Collides reports whether p and q cannot both be open.
func (p Port) Collides(q Port) bool {
	return p.Protocol == q.Protocol && p.HostPort == q.HostPort && (p.AnyIP() || q.AnyIP() || p.HostIP == q.HostIP)
}

func (p Port) String() string {
	if p.AnyIP() {
		return fmt.Sprintf("%d/%s", p.HostPort, strings.ToUpper(p.Protocol))
	}
	return fmt.Sprintf("%s/%s", netip.AddrPortFrom(p.HostIP, p.HostPort), strings.ToUpper(p.Protocol))
}

// Lease is the addresses and host ports of one attachment (sandbox and interface).
type Lease struct {
	Container string `json:"container"`
	Interface string `json:"interface"`
	// Pod is NAMESPACE/NAME, if the runtime passed it.
	Pod   string       `json:"pod,omitempty"`
	UID   string       `json:"uid,omitempty"` // the Pod's UID, if the runtime passed it
	Netns string       `json:"netns"`
	Link  string       `json:"link"` // name of the veth's end on the host
	IPs   []netip.Addr `json:"ips"`
	Ports []Port       `json:"ports,omitempty"`
}

// Holder names the owner for messages.
func (l Lease) Holder() string {
	if l.Pod != "" {
		return "Pod " + l.Pod
	}
	return "sandbox " + l.Container
}

// Allocations is all leases of the machine. It is a value; Store makes changes atomic.
type Allocations struct {
	// Boot is the kernel's boot id: leases of an earlier boot are void.
	Boot         string                      `json:"boot"`
	LastReserved map[netip.Prefix]netip.Addr `json:"last,omitempty"` // last allocated address by range
	Leases       []Lease                     `json:"leases"`
	// Gateways are addresses of the gateways of ranges that have since been widened. The bridge
	// keeps them, because running Pods use them.
	Gateways []netip.Addr `json:"gateways,omitempty"`
}

// RangeFullError means that every address of a range is leased.
type RangeFullError struct {
	Range     netip.Prefix
	Addresses int // addresses of the range that are leased
}

func (f RangeFullError) Error() string {
	return fmt.Sprintf("all %d addresses of the Pod range %s are in use", f.Addresses, f.Range)
}

// Find returns the lease of one attachment.
func (b *Allocations) Find(container, iface string) (Lease, bool) {
	for _, l := range b.Leases {
		if l.Container == container && l.Interface == iface {
			return l, true
		}
	}
	return Lease{}, false
}

// Allocate adds a lease with one address of each range. It returns an error, RangeFullError for a
// full range, if the attachment has a lease or a host port is taken; nothing changes then. A
// released address is used again only after all others of its range.
func (b *Allocations) Allocate(l Lease, ranges []netip.Prefix) (Lease, error) {
	if _, taken := b.Find(l.Container, l.Interface); taken {
		return Lease{}, fmt.Errorf("sandbox %s has an interface %s already; it must be deleted first", l.Container,
			l.Interface)
	}
	for _, other := range b.Leases {
		for _, p := range l.Ports {
			if i := slices.IndexFunc(other.Ports, p.Collides); i >= 0 {
				return Lease{}, fmt.Errorf("host port %s is taken by %s (%s)", p, other.Holder(), other.Ports[i])
			}
		}
	}
	for i, p := range l.Ports {
		if slices.ContainsFunc(l.Ports[:i], p.Collides) {
			return Lease{}, fmt.Errorf("host port %s is asked for twice", p)
		}
	}
	l.IPs = nil
	for _, r := range ranges {
		ip, err := b.nextFree(r)
		if err != nil {
			return Lease{}, err
		}
		l.IPs = append(l.IPs, ip)
	}
	for i, r := range ranges {
		if b.LastReserved == nil {
			b.LastReserved = map[netip.Prefix]netip.Addr{}
		}
		b.LastReserved[r] = l.IPs[i]
	}
	b.Leases = append(b.Leases, l)
	return l, nil
}

// Release removes a lease, if there is one.
func (b *Allocations) Release(container, iface string) {
	b.Leases = slices.DeleteFunc(b.Leases,
		func(l Lease) bool { return l.Container == container && l.Interface == iface })
}

// Free returns how many addresses are left in the fullest range; +Inf without ranges.
func (b *Allocations) Free(ranges []netip.Prefix) float64 {
	left := math.Inf(1)
	for _, r := range ranges {
		free := math.Exp2(float64(r.Addr().BitLen()-r.Bits())) - 2 // the network address and the gateway
		if r.Addr().Is4() {
			free-- // broadcast
		}
		for _, l := range b.Leases {
			if slices.ContainsFunc(l.IPs, r.Contains) {
				free--
			}
		}
		left = min(left, free)
	}
	return left
}

// Gateway returns the first address of a range, which the bridge has.
func Gateway(r netip.Prefix) netip.Addr { return r.Masked().Addr().Next() }

// nextFree returns the next free address after the last allocated one.
func (b *Allocations) nextFree(r netip.Prefix) (netip.Addr, error) {
	r = r.Masked()
	used := map[netip.Addr]bool{Gateway(r): true, r.Addr(): true}
	for _, ip := range b.Gateways {
		used[ip] = true
	}
	taken := 0
	for _, l := range b.Leases {
		for _, ip := range l.IPs {
			used[ip] = true
			if r.Contains(ip) {
				taken++
			}
		}
	}
	ip := b.LastReserved[r]
	if !r.Contains(ip) {
		ip = Gateway(r)
	}
	// Two more tries than used addresses, one of them for wrapping around, suffice to find a free
	// address.
	for range len(used) + 2 {
		if ip = ip.Next(); !isAllocatable(r, ip) {
			ip = Gateway(r).Next()
		}
		if !used[ip] && isAllocatable(r, ip) {
			return ip, nil
		}
	}
	return netip.Addr{}, RangeFullError{r, taken}
}

// isAllocatable reports whether Pods may have ip: it is in the range and not IPv4's broadcast
// address.
func isAllocatable(r netip.Prefix, ip netip.Addr) bool {
	return r.Contains(ip) && (ip.Is6() || r.Contains(ip.Next()))
}
