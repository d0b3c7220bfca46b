package network

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// mostDumps bounds how often a listing is asked for again that the kernel says changed while it was read.
const mostDumps = 20

// Whole asks for a listing until the kernel gives it in one piece: with other instances, or Pods, coming and going a dump may be interrupted.
func Whole[T any](list func() ([]T, error)) ([]T, error) {
	for range mostDumps {
		out, err := list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return out, err
		}
	}
	return list()
}
