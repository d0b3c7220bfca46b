package plugin

import (
	"context"
	"net"
	"os"
)

// Sockets makes and reaches Unix sockets by their paths.
type Sockets interface {
	Listen(path string) (net.Listener, error)
	Dial(ctx context.Context, path string) (net.Conn, error)
}

// UnixSockets are those of the file system.
type UnixSockets struct{}

// Listen makes a socket; one that an earlier program left at that path is replaced.
func (UnixSockets) Listen(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		_ = os.Remove(path) // Listen tells why it cannot be had
	}
	return net.Listen("unix", path)
}

// Dial connects to a socket.
func (UnixSockets) Dial(ctx context.Context, path string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", path)
}
