package crifake

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// Addresses are the Pod addresses that are taken, lowest first.
func (f *Fake) Addresses() []netip.Addr {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ips.taken()
}

// addressPool hands out Pod addresses; *addresses is one. Fake.mu guards it.
type addressPool interface {
	take() (netip.Addr, error)
	free(netip.Addr)
	taken() []netip.Addr // lowest first
}

// addresses hands out Pod addresses, the lowest free one after the last.
type addresses struct {
	prefix netip.Prefix
	last   netip.Addr
	used   map[netip.Addr]bool
}

func newAddresses(prefix netip.Prefix) *addresses {
	return &addresses{prefix: prefix, used: map[netip.Addr]bool{}}
}

func (a *addresses) taken() []netip.Addr {
	return slices.SortedFunc(maps.Keys(a.used), netip.Addr.Compare)
}

func (a *addresses) take() (netip.Addr, error) {
	first := a.prefix.Addr().Next().Next() // .0 is the network, .1 the gateway
	if !a.last.IsValid() || !a.prefix.Contains(a.last.Next()) {
		a.last = a.prefix.Addr().Next()
	}
	for range 2 {
		for ip := a.last.Next(); a.prefix.Contains(ip); ip = ip.Next() {
			if !a.used[ip] {
				a.used[ip], a.last = true, ip
				return ip, nil
			}
		}
		a.last = first.Prev()
	}
	return netip.Addr{}, fmt.Errorf("no IP addresses available in range set: %s", a.prefix)
}

func (a *addresses) free(ip netip.Addr) { delete(a.used, ip) }
