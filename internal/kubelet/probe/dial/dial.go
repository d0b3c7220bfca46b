// Package dial opens the connections of HTTP, TCP and gRPC probes.
//
// In: a timeout. Out: a net.Dialer whose connections leave nothing behind: a probe closes thousands
// of connections an hour, and each would stay in TIME_WAIT for a minute otherwise.
package dial

import (
	"context"
	"net"
	"syscall"
	"time"
)

// Func opens a connection, as net.Dialer.DialContext does. Where Pods are no network endpoints
// (testcluster) it reaches their scripts.
type Func func(ctx context.Context, network, address string) (net.Conn, error)

// Or is f, or the network when f is nil.
func (f Func) Or(timeout time.Duration) Func {
	if f != nil {
		return f
	}
	return Dialer(timeout).DialContext
}

// Dialer returns a dialer for one probe. Closing its connections waits at most a second for data on
// the way and then resets them.
func Dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout:   timeout,
		KeepAlive: -1,
		Control: func(_, _ string, c syscall.RawConn) error {
			var err error
			if e := c.Control(func(fd uintptr) {
				err = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER,
					&syscall.Linger{Onoff: 1, Linger: 1})
			}); e != nil {
				return e
			}
			return err
		},
	}
}
