package routes

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// WatchLinks signals when an interface or address of the host changes, for the kernel drops the
// routes of a link that goes down, and when a route does that is not ours, for Segments tells it.
// Several changes may become one signal. It stops when ctx ends; the channel is never closed.
func WatchLinks(ctx context.Context) (<-chan struct{}, error) {
	links, addrs, routes := make(chan netlink.LinkUpdate, 16), make(chan netlink.AddrUpdate, 16),
		make(chan netlink.RouteUpdate, 16)
	if err := netlink.LinkSubscribe(links, ctx.Done()); err != nil {
		return nil, fmt.Errorf("follow the host's interfaces: %w", err)
	}
	if err := netlink.AddrSubscribe(addrs, ctx.Done()); err != nil {
		return nil, fmt.Errorf("follow the host's addresses: %w", err)
	}
	if err := netlink.RouteSubscribe(routes, ctx.Done()); err != nil {
		return nil, fmt.Errorf("follow the host's routes: %w", err)
	}
	signal := make(chan struct{}, 1)
	go func() {
		for links != nil || addrs != nil || routes != nil {
			select {
			case r, ok := <-routes:
				if !ok {
					routes = nil
				}
				if !isForeignRoute(r.Route) {
					continue
				}
			case _, ok := <-links:
				if !ok {
					links = nil
				}
			case _, ok := <-addrs:
				if !ok {
					addrs = nil
				}
			}
			select {
			case signal <- struct{}{}:
			default:
			}
		}
	}()
	return signal, nil
}

// isForeignRoute reports whether a route may belong to a Segment and is none that a Router makes.
func isForeignRoute(r netlink.Route) bool {
	return r.Protocol != routeProtocol && r.Type == unix.RTN_UNICAST
}
