package network

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/network/ipam"
)

// OpenPorts forwards the lease's host ports to its addresses.
func OpenPorts(ctx context.Context, id string, l ipam.Lease) error {
	if err := nft(ctx, openPorts(id, l)); err != nil {
		return fmt.Errorf("open host ports: %w", err)
	}
	return cleanUDPConntrack(l)
}

// ClosePorts undoes OpenPorts. It succeeds if there is no table.
func ClosePorts(ctx context.Context, id string, l ipam.Lease) error {
	if err := nft(ctx, closePorts(id, l)); err != nil && hasTable(ctx, id) {
		return fmt.Errorf("close host ports: %w", err)
	}
	return cleanUDPConntrack(l)
}

// cleanUDPConntrack deletes conntrack entries of UDP flows to these ports, which would otherwise
// lead to the port's former Pod.
func cleanUDPConntrack(l ipam.Lease) error {
	for _, p := range l.Ports {
		if p.Protocol != "udp" {
			continue
		}
		filter := &netlink.ConntrackFilter{}
		if err := filter.AddProtocol(unix.IPPROTO_UDP); err != nil {
			return err
		}
		if err := filter.AddPort(netlink.ConntrackOrigDstPort, p.HostPort); err != nil {
			return err
		}
		for _, f := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
			if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, f, filter); err != nil {
				return fmt.Errorf("forget UDP port %d: %w", p.HostPort, err)
			}
		}
	}
	return nil
}
