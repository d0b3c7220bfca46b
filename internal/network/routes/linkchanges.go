package routes

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"
)

// WatchLinks signals when an interface or address of the host changes: the kernel drops the routes
// of a link that goes down. Several changes may become one signal. It stops when ctx ends; the
// channel is never closed.
func WatchLinks(ctx context.Context) (<-chan struct{}, error) {
	links, addrs := make(chan netlink.LinkUpdate, 16), make(chan netlink.AddrUpdate, 16)
	if err := netlink.LinkSubscribe(links, ctx.Done()); err != nil {
		return nil, fmt.Errorf("follow the host's interfaces: %w", err)
	}
	if err := netlink.AddrSubscribe(addrs, ctx.Done()); err != nil {
		return nil, fmt.Errorf("follow the host's addresses: %w", err)
	}
	signal := make(chan struct{}, 1)
	go func() {
		for links != nil || addrs != nil {
			select {
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
