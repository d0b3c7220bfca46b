package apiwriter

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	readInterval  = 20 * time.Millisecond // what comes in this time is read at once, while much comes
	countInterval = 50 * time.Millisecond // how long bytes are counted
	busyBytes     = 6 << 10               // so many bytes in that time are much: the events of some two Pods
	busyWakeBytes = 2 << 10               // that of answers to writes: those about two Pods
	readSize      = 64 << 10
	readDeadline  = 256 << 10 // the kernel bounds it to half of what it has room for
)

// batchedConn is a connection that, while much comes over it, reads what came in readInterval at
// once: each read wakes a chain of goroutines, which costs more than what they do with a single Pod
// or answer. All connections of the process read at the same moments, so that it wakes once for all
// of them, and the kernel does not wake it in between (SO_RCVLOWAT). After a quiet time bytes are
// read at once. A scheduler that binds 500 Pods a second through an API server schedules 6,900 Pods
// per second of processor time with it and 4,000 without (five pairs of runs of hack/schedperf api
// SchedulingBasic).
type batchedConn struct {
	net.Conn
	raw       syscall.RawConn // nil: it has none
	tryRead   func(fd uintptr) bool
	n         int   // by the last turn
	err       error // of it
	wakesLate bool  // the kernel wakes for nothing less than readDeadline
	lowWater  int   // bytes in countInterval
	sleep     func(time.Duration)
	readBuffer
}

// readBuffer is what was read.
type readBuffer struct {
	buffer      []byte // room
	unread      []byte // of it, not asked for yet
	last        time.Time
	counted     time.Time // since when bytes are counted
	bytes       int
	bytesBefore int  // in the time before
	full        bool // the last read left something behind, for all it knows
}

// BatchReads wraps dial so that its connections are batchedConns.
func BatchReads(dial func(ctx context.Context,
	network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return newBatchedConn(conn, busyBytes), nil
	}
}

func newBatchedConn(conn net.Conn, much int) *batchedConn {
	g := &batchedConn{Conn: conn, lowWater: much, sleep: time.Sleep}
	if c, ok := conn.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			g.raw, g.tryRead = raw, g.readOnce
		}
	}
	return g
}

// Read reads. As with any connection, one goroutine does so at a time.
func (g *batchedConn) Read(p []byte) (int, error) {
	if len(g.unread) > 0 {
		n := copy(p, g.unread)
		g.unread = g.unread[n:]
		return n, nil
	}
	if g.buffer == nil {
		g.buffer = make([]byte, readSize)
	}
	if d := g.readDelay(time.Now()); d > 0 {
		g.raiseLowWater()
		g.sleep(d)
	}
	n, err := g.readAvailable()
	g.last = time.Now()
	g.bytes += n
	g.full = n == len(g.buffer)
	m := copy(p, g.buffer[:n])
	g.unread = g.buffer[m:n]
	return m, err
}

// readAvailable reads what there is, or waits for something.
func (g *batchedConn) readAvailable() (int, error) {
	if !g.wakesLate {
		return g.Conn.Read(g.buffer)
	}
	if err := g.raw.Read(g.tryRead); err != nil {
		return 0, err
	}
	switch {
	case g.err != nil:
		return 0, &net.OpError{Op: "read", Net: "tcp", Source: g.LocalAddr(), Addr: g.RemoteAddr(),
			Err: os.NewSyscallError("read", g.err)}
	case g.n == 0:
		return 0, io.EOF
	}
	return g.n, nil
}

// readOnce reads once; false: there is nothing, and the kernel wakes for the next byte.
func (g *batchedConn) readOnce(fd uintptr) bool {
	for {
		g.n, g.err = unix.Read(int(fd), g.buffer)
		switch {
		case errors.Is(g.err, unix.EINTR):
		case !errors.Is(g.err, unix.EAGAIN):
			return true
		case !g.wakesLate:
			return false
		default:
			g.wakesLate = false
			if g.err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, 1); g.err != nil {
				return true
			}
		}
	}
}

// raiseLowWater has the kernel not wake the process until much is there.
func (g *batchedConn) raiseLowWater() {
	if g.raw == nil || g.wakesLate {
		return
	}
	_ = g.raw.Control(func(fd uintptr) { // where it fails, the kernel goes on telling, or the next read says why
		g.wakesLate = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, readDeadline) == nil
	})
}

// hasUnread tells whether something was read that nobody has asked for yet.
func (g *batchedConn) hasUnread() bool { return len(g.unread) > 0 }

// readDelay is how long to let things come before the next read.
func (g *batchedConn) readDelay(now time.Time) time.Duration {
	switch passed := now.Sub(g.counted); {
	case passed > 2*countInterval:
		g.counted, g.bytes, g.bytesBefore = now, 0, 0
	case passed > countInterval:
		g.counted, g.bytes, g.bytesBefore = now, 0, g.bytes
	}
	if max(g.bytes, g.bytesBefore) < g.lowWater || g.full {
		return 0
	}
	next := g.last.Truncate(readInterval).Add(readInterval) // by the clock on the wall, which is everybody's
	return min(next.Sub(now), readInterval)
}
