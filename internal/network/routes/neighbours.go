package routes

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/network"
)

// syncNeighbours makes the device's permanent neighbour and forwarding entries equal to want. It
// returns the joined errors of entries that could not be changed.
func syncNeighbours(index int, want []Neighbour) error {
	macs, nodes := map[string]netlink.Neigh{}, map[string]netlink.Neigh{}
	for _, n := range want {
		mac, err := net.ParseMAC(n.MAC)
		if err != nil {
			return fmt.Errorf("end %s: %w", n.IP, err)
		}
		family := unix.AF_INET
		if n.IP.Is6() {
			family = unix.AF_INET6
		}
		macs[n.IP.String()+" "+n.MAC] = netlink.Neigh{LinkIndex: index, Family: family, State: netlink.NUD_PERMANENT,
			IP: n.IP.AsSlice(), HardwareAddr: mac}
		nodes[n.MAC+" "+n.Node.String()] = netlink.Neigh{LinkIndex: index, Family: syscall.AF_BRIDGE,
			State: netlink.NUD_PERMANENT, Flags: netlink.NTF_SELF, IP: n.Node.AsSlice(), HardwareAddr: mac}
	}
	var errs []error
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		have, err := network.DumpWithRetry(func() ([]netlink.Neigh, error) { return netlink.NeighList(index, family) })
		if err != nil {
			return fmt.Errorf("list the tunnel's neighbours: %w", err)
		}
		for i, n := range have {
			key := address(n.IP).String() + " " + n.HardwareAddr.String()
			if _, ok := macs[key]; ok && n.State&netlink.NUD_PERMANENT != 0 {
				delete(macs, key)
			} else if n.State&netlink.NUD_PERMANENT != 0 {
				errs = append(errs, ignoreNotFound(netlink.NeighDel(&have[i])))
			}
		}
	}
	have, err := network.DumpWithRetry(
		func() ([]netlink.Neigh, error) { return netlink.NeighList(index, syscall.AF_BRIDGE) })
	if err != nil {
		return fmt.Errorf("list the tunnel's nodes: %w", err)
	}
	for i, n := range have {
		key := n.HardwareAddr.String() + " " + address(n.IP).String()
		if _, ok := nodes[key]; ok {
			delete(nodes, key)
		} else if (netip.Addr{}) != address(n.IP) {
			have[i].Family, have[i].Flags = syscall.AF_BRIDGE, netlink.NTF_SELF
			errs = append(errs, ignoreNotFound(netlink.NeighDel(&have[i])))
		}
	}
	for _, set := range []map[string]netlink.Neigh{macs, nodes} {
		for what, n := range set {
			if err := netlink.NeighSet(&n); err != nil {
				errs = append(errs, fmt.Errorf("the tunnel's entry %s: %w", what, err))
			}
		}
	}
	return errors.Join(errs...)
}

// ignoreNotFound returns nil if err says that the entry is gone.
func ignoreNotFound(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
