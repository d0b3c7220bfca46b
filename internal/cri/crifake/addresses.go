package crifake

import (
	"net/netip"
	"slices"
)

// Addresses are the Pod addresses that are taken, lowest first.
func (f *Fake) Addresses() []netip.Addr {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []netip.Addr
	for ip := range f.ips.used {
		out = append(out, ip)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}
