package ports

import (
	"fmt"
	"net"
	"net/netip"
)

// Ranges of Pod addresses are 10.N.0.0/16 with N between these.
const firstNetwork, lastNetwork = 224, 251

// Network is a bridge and a range of Pod addresses that no other instance on this machine has until
// Release.
type Network struct {
	Bridge   string // the prefix with the number of the network
	PodCIDR  string // IPv4, 16 bits long
	listener net.Listener
}

// ReserveNetwork returns a network of the caller's own. Ranges that an interface of this machine
// has an address of are left alone: a run that was killed may have left it. The prefix of the
// bridge's name is at most twelve characters long.
func ReserveNetwork(prefix string) (*Network, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for n := firstNetwork; n <= lastNetwork; n++ {
		cidr := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n)}), 16)
		hold, err := lockName(fmt.Sprintf("network/%d", n))
		if err != nil {
			continue
		}
		bridge := fmt.Sprintf("%s%d", prefix, n)
		if _, err := net.InterfaceByName(bridge); err == nil || within(cidr, addrs) {
			_ = hold.Close()
			continue
		}
		return &Network{Bridge: bridge, PodCIDR: cidr.String(), listener: hold}, nil
	}
	return nil, fmt.Errorf("every range of Pod addresses from 10.%d.0.0/16 to 10.%d.0.0/16 is in use on this "+
		"machine: ip -4 addr names the links that have them", firstNetwork, lastNetwork)
}

func within(cidr netip.Prefix, addrs []net.Addr) bool {
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && cidr.Overlaps(p.Masked()) {
			return true
		}
	}
	return false
}

// Release gives the network back, once nothing of it is left on the machine.
func (n *Network) Release() { _ = n.listener.Close() }
