package ipam

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
)

// Port is one host port that leads to a container's.
type Port struct {
	// HostIP restricts the port to one of the host's addresses; invalid or unspecified means all of
	// them.
	HostIP        netip.Addr `json:"hostIP,omitzero"`
	HostPort      uint16     `json:"hostPort"`
	ContainerPort uint16     `json:"containerPort"`
	// Protocol is "tcp", "udp" or "sctp".
	Protocol string `json:"protocol"`
}

// AnyIP tells whether the port is open on all addresses of the host.
func (p Port) AnyIP() bool { return !p.HostIP.IsValid() || p.HostIP.IsUnspecified() }

// Collides tells whether both ports cannot be open at once.
func (p Port) Collides(q Port) bool {
	return p.Protocol == q.Protocol && p.HostPort == q.HostPort && (p.AnyIP() || q.AnyIP() || p.HostIP == q.HostIP)
}

func (p Port) String() string {
	if p.AnyIP() {
		return fmt.Sprintf("%d/%s", p.HostPort, strings.ToUpper(p.Protocol))
	}
	return fmt.Sprintf("%s/%s", netip.AddrPortFrom(p.HostIP, p.HostPort), strings.ToUpper(p.Protocol))
}

// Lease is what one attachment of one sandbox holds.
type Lease struct {
	Container string `json:"container"`
	Interface string `json:"interface"`
	// Pod is namespace/name where the runtime told it.
	Pod   string       `json:"pod,omitempty"`
	UID   string       `json:"uid,omitempty"` // the Pod's, as the runtime knows it
	Netns string       `json:"netns"`
	Link  string       `json:"link"` // the host's end of the veth pair
	IPs   []netip.Addr `json:"ips"`
	Ports []Port       `json:"ports,omitempty"`
}

// Holder names the holder for a person.
func (l Lease) Holder() string {
	if l.Pod != "" {
		return "Pod " + l.Pod
	}
	return "sandbox " + l.Container
}

// Allocations is everything that is leased.
type Allocations struct {
	// Boot is the kernel's boot id: leases of an earlier run of the machine hold nothing.
	Boot         string                      `json:"boot"`
	LastReserved map[netip.Prefix]netip.Addr `json:"last,omitempty"` // handed out last, per range
	Leases       []Lease                     `json:"leases"`
	// Gateways are those of ranges that were widened since: the bridge keeps them, as Pods that run
	// know no other way out.
	Gateways []netip.Addr `json:"gateways,omitempty"`
}

// RangeFullError says that every address of a range is leased.
type RangeFullError struct {
	Range     netip.Prefix
	Addresses int // that Pods of the range can have
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

// Allocate enters a lease with one address of every range, and refuses when a range is used up or a
// host port is taken. An address that was given back rests until all others of its range had their
// turn.
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

// Release gives a lease back; dropping what is not leased is fine.
func (b *Allocations) Release(container, iface string) {
	b.Leases = slices.DeleteFunc(b.Leases,
		func(l Lease) bool { return l.Container == container && l.Interface == iface })
}

// Free is how many addresses the fullest of the ranges has left.
func (b *Allocations) Free(ranges []netip.Prefix) float64 {
	left := math.Inf(1)
	for _, r := range ranges {
		free := math.Exp2(float64(r.Addr().BitLen()-r.Bits())) - 2 // the range's own address and the gateway
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

// Gateway is the first address of a range; the bridge has it.
func Gateway(r netip.Prefix) netip.Addr { return r.Masked().Addr().Next() }

// nextFree is the free address after the one handed out last.
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
	// One more try than there are used addresses, and one for the step over the end, finds a free
	// one if there is one.
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

// isAllocatable tells whether a Pod may have the address: inside the range and not IPv4's broadcast
// address.
func isAllocatable(r netip.Prefix, ip netip.Addr) bool {
	return r.Contains(ip) && (ip.Is6() || r.Contains(ip.Next()))
}
