package cniplugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/network"
	"github.com/gantry-project/gantry/internal/network/ipam"
)

// Add implements CNI ADD: it connects the sandbox and prints the result.
func Add(args *skel.CmdArgs) error {
	c, err := parseConfig(args.StdinData)
	if err != nil {
		return err
	}
	want, err := c.request(args)
	if err != nil {
		return err
	}
	var l ipam.Lease
	if err := c.store().Update(func(b *ipam.Allocations) (err error) {
		l, err = b.Allocate(want, c.Ranges)
		return err
	}); err != nil {
		return withRemedy(c, err)
	}
	result, err := setUpInterface(c, l)
	if err != nil {
		return errors.Join(err, detach(c, l))
	}
	return types.PrintResult(result, c.CNIVersion)
}

// withRemedy adds the remedy to a RangeFullError: this Pod waits, others and the node are not
// affected.
func withRemedy(c *pluginConfig, err error) error {
	var full ipam.RangeFullError
	switch {
	case !errors.As(err, &full):
		return err
	case len(c.Cluster) > 0:
		return fmt.Errorf("%w; a Pod of this node that ends frees one, and other nodes have their own part of the "+
			"cluster's range (its size is --node-cidr-mask-size)", err)
	}
	return fmt.Errorf("%w; a Pod that ends frees one, and a restart with a --pod-cidr that contains %s, as %s, adds "+
		"more while running Pods keep theirs",
		err, full.Range, netip.PrefixFrom(full.Range.Addr(), full.Range.Bits()-min(4, full.Range.Bits())).Masked())
}

// setUpInterface makes the lease's interfaces, addresses and ports in the kernel.
func setUpInterface(c *pluginConfig, l ipam.Lease) (*current.Result, error) {
	bridge, err := network.EnsureBridge(c.Bridge, c.Ranges, c.MTU)
	if err != nil {
		return nil, err
	}
	sandbox, err := netns.GetFromPath(l.Netns)
	if err != nil {
		return nil, fmt.Errorf("network namespace %s: %w", l.Netns, err)
	}
	defer sandbox.Close()
	mac := network.MAC(l.IPs[0])
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.MasterIndex = l.Link, c.MTU, bridge.Attrs().Index
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: l.Interface, PeerNamespace: netlink.NsFd(sandbox),
		PeerHardwareAddr: mac, PeerMTU: uint32(c.MTU)}
	if err := netlink.LinkAdd(pair); err != nil {
		return nil, fmt.Errorf("make interface %s: %w", l.Link, err)
	}
	host, err := netlink.LinkByName(l.Link)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", l.Link, err)
	}
	if err := netlink.LinkSetHairpin(host, true); err != nil {
		return nil, fmt.Errorf("hairpin on %s: %w", l.Link, err)
	}
	if err := netlink.LinkSetUp(host); err != nil {
		return nil, fmt.Errorf("interface %s up: %w", l.Link, err)
	}
	if err := configureSandbox(sandbox, c.Ranges, l); err != nil {
		return nil, err
	}
	if err := c.RuntimeConfig.Bandwidth.shape(sandbox, host, l.Interface); err != nil {
		return nil, err
	}
	if len(l.Ports) > 0 {
		if err := network.OpenPorts(context.Background(), c.ID, l); err != nil {
			return nil, err
		}
	}
	if c.PolicySocket != "" {
		if err := network.WaitForPolicies(c.PolicySocket, l); err != nil {
			return nil, err
		}
	}
	return result(c, l, host.Attrs().HardwareAddr, mac), nil
}

// configureSandbox adds addresses and default routes to the sandbox's interface.
func configureSandbox(sandbox netns.NsHandle, ranges []netip.Prefix, l ipam.Lease) error {
	h, err := netlink.NewHandleAt(sandbox, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink in %s: %w", l.Netns, err)
	}
	defer h.Close()
	link, err := h.LinkByName(l.Interface)
	if err != nil {
		return fmt.Errorf("interface %s in %s: %w", l.Interface, l.Netns, err)
	}
	// A Pod only has a route to its gateway, so that traffic to other Pods of the bridge passes the
	// host's rules, with or without br_netfilter. Otherwise replies of a translated connection
	// would take the direct path and come from an address that was not the destination.
	for _, ip := range l.IPs {
		if err := h.AddrAdd(link, network.Address(ip, ip.BitLen())); err != nil {
			return fmt.Errorf("address %s of %s: %w", ip, l.Interface, err)
		}
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("interface %s up: %w", l.Interface, err)
	}
	for _, r := range ranges {
		gw := ipam.Gateway(r)
		near := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: network.Address(gw, gw.BitLen()).IPNet,
			Scope: netlink.SCOPE_LINK}
		if err := h.RouteAdd(near); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("route to the gateway %s: %w", gw, err)
		}
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: gw.AsSlice()}
		if err := h.RouteAdd(route); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("default route through %s: %w", ipam.Gateway(r), err)
		}
	}
	return nil
}

func result(c *pluginConfig, l ipam.Lease, hostMAC, podMAC net.HardwareAddr) *current.Result {
	r := &current.Result{
		CNIVersion: current.ImplementedSpecVersion,
		Interfaces: []*current.Interface{
			{Name: c.Bridge},
			{Name: l.Link, Mac: hostMAC.String()},
			{Name: l.Interface, Mac: podMAC.String(), Mtu: c.MTU, Sandbox: l.Netns},
		},
	}
	for i, ip := range l.IPs {
		gw := net.IP(ipam.Gateway(c.Ranges[i]).AsSlice())
		r.IPs = append(r.IPs, &current.IPConfig{
			Interface: current.Int(2), Gateway: gw,
			Address: net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(ip.BitLen(), ip.BitLen())},
		})
		zero := net.IPNet{IP: make(net.IP, len(gw)), Mask: net.CIDRMask(0, ip.BitLen())}
		r.Routes = append(r.Routes, &types.Route{Dst: zero, GW: gw})
	}
	return r
}
