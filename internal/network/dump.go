package network

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// maxDumpAttempts bounds how often a listing is asked for again that the kernel says changed while
// it was read.
const maxDumpAttempts = 20

// DumpWithRetry asks for a listing until the kernel gives it in one piece: with other instances, or
// Pods, coming and going a dump may be interrupted.
func DumpWithRetry[T any](list func() ([]T, error)) ([]T, error) {
	for range maxDumpAttempts {
		out, err := list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return out, err
		}
	}
	return list()
}
