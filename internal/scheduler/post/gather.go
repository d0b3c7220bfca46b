package post

import (
	"context"
	"net"
	"time"
)

const (
	gatherFor  = 20 * time.Millisecond // what comes in this time is read at once, while much comes
	countFor   = 50 * time.Millisecond // how long reads are counted
	muchComing = 8                     // so many reads in that time are much
	readSize   = 64 << 10
)

// gathering is a connection that, while much comes over it, reads what came in a few milliseconds at once: each read wakes a chain of goroutines, which costs more than what
// they do with a single Pod or answer. What comes after a while of quiet is read at once.
type gathering struct {
	net.Conn
	buffer    []byte // room
	rest      []byte // of it, not asked for yet
	last      time.Time
	counted   time.Time // since when reads are counted
	reads     int
	readsThen int // in the time before
	sleep     func(time.Duration)
}

// Gather dials connections that read at once what came in a few milliseconds, while much comes.
func Gather(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return newGathering(conn), nil
	}
}

func newGathering(conn net.Conn) *gathering {
	return &gathering{Conn: conn, sleep: time.Sleep}
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
		g.sleep(d)
	}
	n, err := g.Conn.Read(g.buffer)
	g.last = time.Now()
	g.reads++
	m := copy(p, g.buffer[:n])
	g.rest = g.buffer[m:n]
	return m, err
}

// more tells whether something was read that nobody has asked for yet.
func (g *gathering) more() bool { return len(g.rest) > 0 }

// pause is how long to let things come before the next read.
func (g *gathering) pause(now time.Time) time.Duration {
	switch passed := now.Sub(g.counted); {
	case passed > 2*countFor:
		g.counted, g.reads, g.readsThen = now, 0, 0
	case passed > countFor:
		g.counted, g.reads, g.readsThen = now, 0, g.reads
	}
	if max(g.reads, g.readsThen) < muchComing {
		return 0
	}
	return g.last.Add(gatherFor).Sub(now)
}
