package post

import (
	"context"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	gatherFor  = 20 * time.Millisecond // what comes in this time is read at once, while much comes
	countFor   = 50 * time.Millisecond // how long bytes are counted
	muchComing = 6 << 10               // so many bytes in that time are much: the events of some two Pods
	muchSaid   = 2 << 10               // that of answers to writes: those about two Pods
	readSize   = 64 << 10
	tellLate   = 256 << 10 // the kernel bounds it to half of what it has room for
)

// gathering is a connection that, while much comes over it, reads what came in a few milliseconds at once: each read wakes a chain of goroutines, which costs more than what
// they do with a single Pod or answer. All connections read at the same moments, so that the process wakes once for all of them, and the kernel does not wake it in between.
// What comes after a while of quiet is read at once.
type gathering struct {
	net.Conn
	raw   syscall.RawConn // nil: it has none
	turn  func(fd uintptr) bool
	got   int   // by the last turn
	err   error // of it
	late  bool  // the kernel tells of nothing less than tellLate
	much  int   // bytes in countFor
	sleep func(time.Duration)
	incoming
}

// incoming is what was read.
type incoming struct {
	buffer    []byte // room
	rest      []byte // of it, not asked for yet
	last      time.Time
	counted   time.Time // since when bytes are counted
	bytes     int
	bytesThen int  // in the time before
	full      bool // the last read left something behind, for all it knows
}

// Gather dials connections that read at once what came in a few milliseconds, while much comes.
func Gather(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return newGathering(conn, muchComing), nil
	}
}

func newGathering(conn net.Conn, much int) *gathering {
	g := &gathering{Conn: conn, much: much, sleep: time.Sleep}
	if c, ok := conn.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			g.raw, g.turn = raw, g.try
		}
	}
	return g
}

// Read reads. As with any connection, one goroutine does so at a time.
func (g *gathering) Read(p []byte) (int, error) {
	if len(g.rest) > 0 {
		n := copy(p, g.rest)
		g.rest = g.rest[n:]
		return n, nil
	}
	if g.buffer == nil {
		g.buffer = make([]byte, readSize)
	}
	if d := g.pause(time.Now()); d > 0 {
		g.hush()
		g.sleep(d)
	}
	n, err := g.take()
	g.last = time.Now()
	g.bytes += n
	g.full = n == len(g.buffer)
	m := copy(p, g.buffer[:n])
	g.rest = g.buffer[m:n]
	return m, err
}

// take reads what there is, or waits for something.
func (g *gathering) take() (int, error) {
	if !g.late {
		return g.Conn.Read(g.buffer)
	}
	if err := g.raw.Read(g.turn); err != nil {
		return 0, err
	}
	switch {
	case g.err != nil:
		return 0, &net.OpError{Op: "read", Net: "tcp", Source: g.LocalAddr(), Addr: g.RemoteAddr(), Err: os.NewSyscallError("read", g.err)}
	case g.got == 0:
		return 0, io.EOF
	}
	return g.got, nil
}

// try reads once; false: there is nothing, and the kernel tells of the next byte.
func (g *gathering) try(fd uintptr) bool {
	for {
		g.got, g.err = unix.Read(int(fd), g.buffer)
		switch {
		case g.err == unix.EINTR:
		case g.err != unix.EAGAIN:
			return true
		case !g.late:
			return false
		default:
			g.late = false
			if g.err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, 1); g.err != nil {
				return true
			}
		}
	}
}

// hush has the kernel tell of nothing until much is there.
func (g *gathering) hush() {
	if g.raw == nil || g.late {
		return
	}
	_ = g.raw.Control(func(fd uintptr) { // where it fails, the kernel goes on telling, or the next read says why
		g.late = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, tellLate) == nil
	})
}

// more tells whether something was read that nobody has asked for yet.
func (g *gathering) more() bool { return len(g.rest) > 0 }

// pause is how long to let things come before the next read.
func (g *gathering) pause(now time.Time) time.Duration {
	switch passed := now.Sub(g.counted); {
	case passed > 2*countFor:
		g.counted, g.bytes, g.bytesThen = now, 0, 0
	case passed > countFor:
		g.counted, g.bytes, g.bytesThen = now, 0, g.bytes
	}
	if max(g.bytes, g.bytesThen) < g.much || g.full {
		return 0
	}
	next := g.last.Truncate(gatherFor).Add(gatherFor) // by the clock on the wall, which is everybody's
	return min(next.Sub(now), gatherFor)
}
