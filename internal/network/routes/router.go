package routes

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/network"
)

// Port is the UDP port of VXLAN (RFC 7348).
const Port = 4789

// routeProtocol marks our routes in the kernel.
const routeProtocol = netlink.RouteProtocol(0x47)

// Router programs the routes and the tunnel of one instance. One goroutine may use it at a time.
type Router struct {
	ID      string // of the instance
	Cluster []netip.Prefix
	MTU     int // of the tunnel in bytes; 0: the underlay's less the overhead
}

// Device returns the name of the tunnel device.
func (l *Router) Device() string { return "gv" + l.ID }

// OnLink returns which of addrs this host reaches without a gateway and not through loopback or the
// tunnel.
func (l *Router) OnLink(addrs []netip.Addr) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for _, a := range addrs {
		routes, err := netlink.RouteGet(a.AsSlice())
		if err != nil || len(routes) == 0 || routes[0].Gw != nil && !routes[0].Gw.Equal(net.IP(a.AsSlice())) {
			continue
		}
		link, err := netlink.LinkByIndex(routes[0].LinkIndex)
		if err != nil || link.Attrs().Flags&net.FlagLoopback != 0 || link.Attrs().Name == l.Device() {
			continue
		}
		out[a] = true
	}
	return out
}

// Segments returns the prefixes that this host reaches without a gateway, and more specific ones
// that need one, excluding Pod CIDRs and the tunnel.
func (l *Router) Segments() ([]Segment, error) {
	var all []Segment
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := network.DumpWithRetry(func() ([]netlink.Route, error) { return netlink.RouteList(nil, family) })
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		for _, r := range routes {
			if s, ok := l.segment(r, family); ok {
				all = append(all, s)
			}
		}
	}
	return segments(all), nil
}

func (l *Router) segment(r netlink.Route, family int) (Segment, bool) {
	dst := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if family == netlink.FAMILY_V6 {
		dst = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	if r.Dst != nil {
		var ok bool
		if dst, ok = prefix(r.Dst); !ok {
			return Segment{}, false
		}
	}
	s := Segment{dst.Masked(), r.Gw != nil || r.Via != nil || len(r.MultiPath) > 0}
	ours := slices.ContainsFunc(l.Cluster,
		func(c netip.Prefix) bool { return dst.Bits() >= c.Bits() && c.Contains(dst.Addr()) })
	if r.Protocol == routeProtocol || ours || dst.Addr().IsLinkLocalUnicast() || dst.Addr().IsMulticast() ||
		dst.Addr().IsLoopback() || r.Type != unix.RTN_UNICAST {
		return Segment{}, false
	}
	return s, true
}

// Apply makes the kernel's state equal to w. Tunnel packets are sent from self.Address. Errors are
// joined; what could be applied stays.
func (l *Router) Apply(w DesiredState, self Node) error {
	index := 0
	if len(w.TunnelAddresses) > 0 {
		link, err := l.ensureDevice(self)
		if err != nil {
			return err
		}
		index = link.Attrs().Index
		if err := errors.Join(l.syncTunnelAddresses(link, w.TunnelAddresses),
			syncNeighbours(index, w.Neighbours)); err != nil {
			return err
		}
	}
	err := l.syncRoutes(w.Routes, index)
	if len(w.TunnelAddresses) == 0 {
		err = errors.Join(err, l.removeDevice())
	}
	return err
}

// Clean removes routes and tunnel.
func (l *Router) Clean() error { return errors.Join(l.syncRoutes(nil, 0), l.removeDevice()) }

func (l *Router) ensureDevice(self Node) (netlink.Link, error) {
	mtu, parent, err := l.underlay(self.Address)
	if err != nil {
		return nil, err
	}
	want := &netlink.Vxlan{LinkAttrs: netlink.NewLinkAttrs(), VxlanId: VNI(l.Cluster), VtepDevIndex: parent,
		SrcAddr: self.Address.AsSlice(), Port: Port, Learning: false}
	want.Name, want.HardwareAddr, want.MTU = l.Device(), MAC(self.Name), mtu
	link, err := netlink.LinkByName(want.Name)
	if err == nil && sameVxlan(link, want) {
		if link.Attrs().Flags&net.FlagUp != 0 {
			return link, nil
		}
		return link, setLinkUp(link)
	}
	if err == nil {
		if err := netlink.LinkDel(link); err != nil {
			return nil, fmt.Errorf("remove the tunnel %s, which changed: %w", want.Name, err)
		}
	}
	if err := netlink.LinkAdd(want); err != nil {
		if errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("make the tunnel %s: another device has VXLAN network %d on port %d; give the "+
				"clusters different --cluster-cidr", want.Name, want.VxlanId, Port)
		}
		return nil, fmt.Errorf("make the tunnel %s: %w", want.Name, err)
	}
	if link, err = netlink.LinkByName(want.Name); err != nil {
		return nil, fmt.Errorf("tunnel %s: %w", want.Name, err)
	}
	return link, setLinkUp(link)
}

func setLinkUp(link netlink.Link) error {
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("tunnel %s up: %w", link.Attrs().Name, err)
	}
	return nil
}

func sameVxlan(link netlink.Link, want *netlink.Vxlan) bool {
	have, ok := link.(*netlink.Vxlan)
	return ok && have.VxlanId == want.VxlanId && have.VtepDevIndex == want.VtepDevIndex && have.SrcAddr.Equal(
		want.SrcAddr) && have.Port == want.Port &&
		have.MTU == want.MTU && have.HardwareAddr.String() == want.HardwareAddr.String()
}

// underlay returns the index of the interface with this node's address, and the MTU of a tunnel
// over it.
func (l *Router) underlay(self netip.Addr) (mtu, index int, err error) {
	links, err := network.DumpWithRetry(netlink.LinkList)
	if err != nil {
		return 0, 0, fmt.Errorf("list interfaces: %w", err)
	}
	for _, link := range links {
		addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			continue // the interface is gone
		}
		for _, a := range addrs {
			if ip, ok := netip.AddrFromSlice(a.IP); !ok || ip.Unmap() != self {
				continue
			}
			if mtu = link.Attrs().MTU - VXLANOverhead; self.Is6() {
				mtu -= 20
			}
			if l.MTU > 0 {
				mtu = min(mtu, l.MTU)
			}
			return mtu, link.Attrs().Index, nil
		}
	}
	return 0, 0, fmt.Errorf("no interface of this host has the node's address %s; correct --node-ip", self)
}

// syncTunnelAddresses makes the device's addresses equal to want, except link-local ones.
func (l *Router) syncTunnelAddresses(link netlink.Link, want []netip.Addr) error {
	have, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("addresses of %s: %w", link.Attrs().Name, err)
	}
	missing := map[netip.Addr]bool{}
	for _, a := range want {
		missing[a] = true
	}
	var errs []error
	for i, a := range have {
		ip, ok := netip.AddrFromSlice(a.IP)
		if ip = ip.Unmap(); !ok || ip.IsLinkLocalUnicast() {
			continue
		}
		if !missing[ip] {
			errs = append(errs, netlink.AddrDel(link, &have[i]))
		}
		delete(missing, ip)
	}
	for a := range missing {
		if err := netlink.AddrAdd(link, network.Address(a, a.BitLen())); err != nil && !errors.Is(err, unix.EEXIST) {
			errs = append(errs, fmt.Errorf("address %s of %s: %w", a, link.Attrs().Name, err))
		}
	}
	return errors.Join(errs...)
}

// syncRoutes makes our routes into the cluster CIDRs equal to want.
func (l *Router) syncRoutes(want []Route, device int) error {
	missing := map[netip.Prefix]Route{}
	for _, r := range want {
		missing[r.Dst] = r
	}
	var errs []error
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		have, err := network.DumpWithRetry(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(family, &netlink.Route{Protocol: routeProtocol},
				netlink.RT_FILTER_PROTOCOL)
		})
		if err != nil {
			return fmt.Errorf("list routes: %w", err)
		}
		for i, r := range have {
			dst, ok := prefix(r.Dst)
			if !ok || !within(dst, l.Cluster) {
				continue // of another instance
			}
			w, wanted := missing[dst]
			if wanted && w.Via.Compare(address(r.Gw)) == 0 && (w.Tunnel == (r.LinkIndex == device && device != 0)) {
				delete(missing, dst)
			} else if !wanted {
				if err := netlink.RouteDel(&have[i]); err != nil && !errors.Is(err, unix.ESRCH) {
					errs = append(errs, fmt.Errorf("remove the route to %s: %w", dst, err))
				}
			}
		}
	}
	for dst, r := range missing {
		route := &netlink.Route{Dst: &net.IPNet{IP: dst.Addr().AsSlice(),
			Mask: net.CIDRMask(dst.Bits(), dst.Addr().BitLen())}, Gw: r.Via.AsSlice(), Protocol: routeProtocol}
		if r.Tunnel {
			route.LinkIndex = device
			route.SetFlag(netlink.FLAG_ONLINK)
		}
		if err := netlink.RouteReplace(route); err != nil {
			errs = append(errs, fmt.Errorf("route to %s by %s: %w", dst, r.Via, err))
		}
	}
	return errors.Join(errs...)
}

func address(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

func prefix(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	ones, bits := n.Mask.Size()
	a := address(n.IP)
	return netip.PrefixFrom(a, ones), a.IsValid() && a.BitLen() == bits
}

func (l *Router) removeDevice() error {
	link, err := netlink.LinkByName(l.Device())
	if err == nil {
		err = netlink.LinkDel(link)
	}
	var absent netlink.LinkNotFoundError
	if err == nil || errors.As(err, &absent) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return fmt.Errorf("remove the tunnel %s: %w", l.Device(), err)
}
