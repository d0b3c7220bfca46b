package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/network/ipam"
)

// EnsureBridge returns the bridge and creates and configures it if necessary: the gateway address
// of every range, up, with the sysctls it needs.
func EnsureBridge(name string, ranges []netip.Prefix, mtu int) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	if err == nil {
		if link.Type() != "bridge" {
			return nil, fmt.Errorf("interface %s is there already and is a %s; choose another name with --bridge", name,
				link.Type())
		}
		if link.Attrs().Flags&net.FlagUp != 0 {
			return link, nil
		}
	} else {
		var absent netlink.LinkNotFoundError
		if !errors.As(err, &absent) {
			return nil, fmt.Errorf("interface %s: %w", name, err)
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU, attrs.HardwareAddr = name, mtu, MAC(ipam.Gateway(ranges[0]))
		link = &netlink.Bridge{LinkAttrs: attrs}
		if err := netlink.LinkAdd(link); err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("make bridge %s: %w", name, err)
		}
		if link, err = netlink.LinkByName(name); err != nil {
			return nil, fmt.Errorf("bridge %s: %w", name, err)
		}
	}
	for _, r := range ranges {
		if err := netlink.AddrAdd(link, address(ipam.Gateway(r), r.Bits())); err != nil && !errors.Is(err,
			unix.EEXIST) {
			return nil, fmt.Errorf("address of bridge %s: %w", name, err)
		}
	}
	if err := bridgeSettings(name, ranges); err != nil {
		return nil, err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("bridge %s up: %w", name, err)
	}
	return link, nil
}

// bridgeAddresses makes the bridge's addresses within the ranges equal to the gateways and the
// retained addresses; a range may have been widened since the bridge was made. New addresses are
// added before old ones are removed, so that Pods keep a gateway.
func bridgeAddresses(link netlink.Link, ranges []netip.Prefix, retained []netip.Addr) error {
	wanted := map[netip.Prefix]bool{}
	for _, r := range ranges {
		wanted[netip.PrefixFrom(ipam.Gateway(r), r.Bits())] = true
	}
	for _, ip := range retained {
		wanted[netip.PrefixFrom(ip, ip.BitLen())] = true
	}
	have, err := DumpWithRetry(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("addresses of bridge %s: %w", link.Attrs().Name, err)
	}
	var old []netlink.Addr
	for _, a := range have {
		ip, ok := netip.AddrFromSlice(a.IP)
		ones, _ := a.Mask.Size()
		p := netip.PrefixFrom(ip.Unmap(), ones)
		switch {
		case wanted[p]:
			delete(wanted, p)
		case ok && slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(p.Addr()) }):
			old = append(old, a)
		}
	}
	for p := range wanted {
		err := netlink.AddrAdd(link, address(p.Addr(), p.Bits()))
		if errors.Is(err, unix.EEXIST) { // IPv6 has an address only once, with one prefix length
			if i := slices.IndexFunc(old, func(a netlink.Addr) bool { return a.IP.Equal(p.Addr().AsSlice()) }); i >= 0 {
				err = errors.Join(netlink.AddrDel(link, &old[i]), netlink.AddrAdd(link, address(p.Addr(), p.Bits())))
				old = slices.Delete(old, i, i+1)
			}
		}
		if err != nil {
			return fmt.Errorf("address %s of bridge %s: %w", p, link.Attrs().Name, err)
		}
	}
	for i := range old {
		if err := netlink.AddrDel(link, &old[i]); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("address %s of bridge %s: %w", old[i].IPNet, link.Attrs().Name, err)
		}
	}
	return nil
}

// address returns an IP with its range's prefix length, without duplicate address detection for
// IPv6, since nobody else assigns these.
func address(ip netip.Addr, bits int) *netlink.Addr {
	a := &netlink.Addr{IPNet: &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(bits, ip.BitLen())}}
	if ip.Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	return a
}

// Address returns the address of a Pod's interface.
func Address(ip netip.Addr, bits int) *netlink.Addr { return address(ip, bits) }

// MAC derives a MAC address from the IP, so that neighbour caches stay right when an IP moves to
// another Pod.
func MAC(ip netip.Addr) net.HardwareAddr {
	b := ip.AsSlice()
	return append(net.HardwareAddr{0x0a, 0x58}, b[len(b)-4:]...)
}

func bridgeSettings(name string, ranges []netip.Prefix) error {
	for _, r := range ranges {
		if r.Addr().Is4() {
			// Allows packets from the host's loopback to Pods (host ports on 127.0.0.1); the
			// table's guard chain keeps Pods off the host's loopback.
			if err := sysctl("net/ipv4/conf/"+name+"/route_localnet", "1"); err != nil {
				return err
			}
			// Pods of the bridge talk through the host on purpose. Redirects to the direct path
			// would be wrong, and use up the rate limit of ICMP messages (such as "port
			// unreachable") that a host sends to an address.
			if err := sysctl("net/ipv4/conf/"+name+"/send_redirects", "0"); err != nil {
				return err
			}
		} else if err := sysctl("net/ipv6/conf/"+name+"/accept_dad", "0"); err != nil {
			return err
		}
	}
	return nil
}

func forwarding(ranges []netip.Prefix) error {
	for _, r := range ranges {
		name := "net/ipv4/ip_forward"
		if r.Addr().Is6() {
			name = "net/ipv6/conf/all/forwarding"
			if err := keepAdvertisedAddresses(); err != nil {
				return err
			}
		}
		if err := sysctl(name, "1"); err != nil {
			return err
		}
		if r.Addr().Is4() {
			// An interface sends redirects if its own setting or this one is on; other interfaces
			// keep theirs.
			if err := sysctl("net/ipv4/conf/all/send_redirects", "0"); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepAdvertisedAddresses sets accept_ra on interfaces whose default route came from a router
// advertisement: a forwarding host ignores advertisements otherwise, and would lose the route when
// it expires.
func keepAdvertisedAddresses() error {
	routes, err := DumpWithRetry(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_V6, &netlink.Route{Protocol: unix.RTPROT_RA},
			netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		link, err := netlink.LinkByIndex(r.LinkIndex)
		if err != nil || r.Dst != nil && !r.Dst.IP.IsUnspecified() {
			continue
		}
		name := "net/ipv6/conf/" + link.Attrs().Name + "/accept_ra"
		if now, err := os.ReadFile(filepath.Join("/proc/sys", name)); err != nil || string(now) != "1\n" {
			continue
		}
		if err := sysctl(name, "2"); err != nil {
			return err
		}
	}
	return nil
}

func sysctl(name, value string) error {
	path := filepath.Join("/proc/sys", name)
	if now, err := os.ReadFile(path); err == nil && len(now) > 0 && string(now[:len(now)-1]) == value {
		return nil
	}
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		return fmt.Errorf("set %s to %s: %w", path, value, err)
	}
	return nil
}

// checkOverlap returns an error if another interface uses a range already.
func checkOverlap(s settings) error {
	links, err := DumpWithRetry(netlink.LinkList)
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	for _, f := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := DumpWithRetry(func() ([]netlink.Route, error) { return netlink.RouteList(nil, f) })
		if err != nil {
			return fmt.Errorf("list routes: %w", err)
		}
		for _, route := range routes {
			if route.Dst == nil || names[route.LinkIndex] == s.bridge {
				continue
			}
			ip, ok := netip.AddrFromSlice(route.Dst.IP)
			ones, _ := route.Dst.Mask.Size()
			if !ok || ones == 0 {
				continue
			}
			for _, r := range s.ranges {
				if r.Overlaps(netip.PrefixFrom(ip.Unmap(), ones)) {
					return fmt.Errorf("the Pod range %s overlaps %s, which is behind interface %s; choose another "+
						"with --pod-cidr", r, route.Dst, names[route.LinkIndex])
				}
			}
		}
	}
	return nil
}

// defaultMTU returns the MTU of the interface with the default route.
func defaultMTU() int {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := DumpWithRetry(func() ([]netlink.Route, error) { return netlink.RouteList(nil, family) })
		if err != nil {
			return 1500
		}
		for _, r := range routes {
			if r.Dst != nil && !r.Dst.IP.IsUnspecified() {
				continue
			}
			if l, err := netlink.LinkByIndex(r.LinkIndex); err == nil && l.Attrs().MTU > 0 &&
				l.Attrs().Flags&net.FlagLoopback == 0 {
				return min(l.Attrs().MTU, 9000)
			}
		}
	}
	return 1500
}
