package nftables

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// CleanStaleEntries deletes conntrack entries of UDP flows that flows calls stale: they lead to an
// endpoint that is gone, or to none although there is one now. UDP has no close, so such entries
// would live as long as the client sends. It returns how many entries were deleted, also with an
// error.
func CleanStaleEntries(family rules.Family, flows *rules.UDPFlows) (int, error) {
	if flows.Empty() {
		return 0, nil
	}
	f := netlink.InetFamily(unix.AF_INET)
	if family == rules.IPv6 {
		f = unix.AF_INET6
	}
	n, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, f, &staleUDPFilter{flows})
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return int(n), fmt.Errorf("forget UDP conversations: %w", err)
	}
	return int(n), nil
}

type staleUDPFilter struct{ flows *rules.UDPFlows }

// MatchConntrackFlow reports whether the flow is stale and to be deleted. netlink calls it.
func (s *staleUDPFilter) MatchConntrackFlow(f *netlink.ConntrackFlow) bool {
	if f.Forward.Protocol != unix.IPPROTO_UDP {
		return false
	}
	requested, ok := netip.AddrFromSlice(f.Forward.DstIP)
	answers, ok2 := netip.AddrFromSlice(f.Reverse.SrcIP)
	return ok && ok2 && s.flows.Stale(netip.AddrPortFrom(requested.Unmap(), f.Forward.DstPort),
		netip.AddrPortFrom(answers.Unmap(), f.Reverse.SrcPort))
}
