package network

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// maxDumpAttempts bounds how often a dump that the kernel reports as interrupted is repeated.
const maxDumpAttempts = 20

// DumpWithRetry calls list until the kernel returns an uninterrupted dump: links and routes that
// come and go interrupt it.
func DumpWithRetry[T any](list func() ([]T, error)) ([]T, error) {
	for range maxDumpAttempts {
		out, err := list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return out, err
		}
	}
	return list()
}
