package cniplugin

import (
	"context"
	"errors"
	"fmt"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/network"
	"github.com/gantry-project/gantry/internal/network/ipam"
)

// Del implements CNI DEL: it disconnects the sandbox. It succeeds if there is nothing left to do.
func Del(args *skel.CmdArgs) error {
	c, allocations, err := open(args)
	if err != nil {
		return err
	}
	l, ok := allocations.Find(args.ContainerID, args.IfName)
	if !ok {
		return network.RemoveLink(linkName(args))
	}
	return detach(c, l)
}

// open reads the configuration and its leases.
func open(args *skel.CmdArgs) (*pluginConfig, ipam.Allocations, error) {
	c, err := parseConfig(args.StdinData)
	if err != nil {
		return nil, ipam.Allocations{}, err
	}
	allocations, err := c.store().View()
	return c, allocations, err
}

// detach undoes Add; the lease is removed last, so that an interrupted DEL can be repeated.
func detach(c *pluginConfig, l ipam.Lease) error {
	if err := network.Detach(context.Background(), c.ID, l); err != nil {
		return err
	}
	return c.store().Update(func(b *ipam.Allocations) error { b.Release(l.Container, l.Interface); return nil })
}

// GC implements CNI GC: it disconnects every sandbox that the runtime does not list.
func GC(args *skel.CmdArgs) error {
	c, allocations, err := open(args)
	if err != nil {
		return err
	}
	valid := map[types.GCAttachment]bool{}
	for _, a := range c.ValidAttachments {
		valid[a] = true
	}
	var errs []error
	for _, l := range allocations.Leases {
		if !valid[types.GCAttachment{ContainerID: l.Container, IfName: l.Interface}] {
			errs = append(errs, detach(c, l))
		}
	}
	return errors.Join(errs...)
}

// Check implements CNI CHECK: lease, links and addresses are as ADD left them.
func Check(args *skel.CmdArgs) error {
	_, allocations, err := open(args)
	if err != nil {
		return err
	}
	l, ok := allocations.Find(args.ContainerID, args.IfName)
	if !ok {
		return fmt.Errorf("sandbox %s has no lease", args.ContainerID)
	}
	if _, err := netlink.LinkByName(l.Link); err != nil {
		return fmt.Errorf("interface %s: %w", l.Link, err)
	}
	sandbox, err := netns.GetFromPath(args.Netns)
	if err != nil {
		return fmt.Errorf("network namespace %s: %w", args.Netns, err)
	}
	defer sandbox.Close()
	h, err := netlink.NewHandleAt(sandbox, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink in %s: %w", args.Netns, err)
	}
	defer h.Close()
	link, err := h.LinkByName(l.Interface)
	if err != nil {
		return fmt.Errorf("interface %s in %s: %w", l.Interface, args.Netns, err)
	}
	addrs, err := h.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("addresses of %s: %w", l.Interface, err)
	}
	have := map[string]bool{}
	for _, a := range addrs {
		have[a.IP.String()] = true
	}
	for _, ip := range l.IPs {
		if !have[ip.String()] {
			return fmt.Errorf("interface %s in %s lost its address %s", l.Interface, args.Netns, ip)
		}
	}
	return nil
}

// Status implements CNI STATUS: the network exists. A full range is not an error: the runtime would
// report the whole network, and with it the node, as not ready, although only new Pods have to
// wait.
func Status(args *skel.CmdArgs) error {
	c, err := parseConfig(args.StdinData)
	if err != nil {
		return err
	}
	if _, err := c.store().View(); err != nil {
		const notAvailable = 50 // CNI's code for "ADD would fail"
		return types.NewError(notAvailable, err.Error(), "")
	}
	return nil
}
