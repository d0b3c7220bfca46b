// Package deviceplugintest is a device plugin for tests: a real server of the device plugin API
// whose devices and faults tests set, and sockets in memory for tests in virtual time.
package deviceplugintest

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc/test/bufconn"
)

// Sockets are sockets in memory.
type Sockets struct {
	mu   sync.Mutex
	open map[string]*bufconn.Listener
}

// Listen makes a socket.
func (s *Sockets) Listen(path string) (net.Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[string]*bufconn.Listener{}
	}
	if s.open[path] != nil {
		return nil, fmt.Errorf("listen unix %s: bind: address already in use", path)
	}
	l := &listener{bufconn.Listen(1 << 16), s, path}
	s.open[path] = l.Listener
	return l, nil
}

// Dial connects to a socket.
func (s *Sockets) Dial(ctx context.Context, path string) (net.Conn, error) {
	s.mu.Lock()
	l := s.open[path]
	s.mu.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: os.ErrNotExist}
	}
	return l.DialContext(ctx)
}

// Has tells whether somebody listens.
func (s *Sockets) Has(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[path] != nil
}

type listener struct {
	*bufconn.Listener
	sockets *Sockets
	path    string
}

// Close takes the socket away.
func (l *listener) Close() error {
	l.sockets.mu.Lock()
	if l.sockets.open[l.path] == l.Listener {
		delete(l.sockets.open, l.path)
	}
	l.sockets.mu.Unlock()
	return l.Listener.Close()
}
