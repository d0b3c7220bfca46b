package watchbatching

import (
	"net"
	"os"
	"runtime"
	"sync"
	"time"
)

const (
	// idleThreshold is how long a connection must not have been written to for the next write to go
	// out by itself.
	idleThreshold = time.Millisecond
	// directWriteSize is a write that is worth a system call.
	directWriteSize = 8 << 10
	// maxPending is how much may wait before who writes waits too, in bytes.
	maxPending = 256 << 10
	// closeTimeout is how long the peer of a connection that is closed, or written to no more, has
	// to take what waited.
	closeTimeout = time.Second
	// keepAlive is how often an idle connection is tried: the library's, which it can set only on a
	// connection that it knows.
	keepAlive = 3 * time.Minute
)

// Listener accepts connections whose writes travel together: what is written in a burst is gathered
// and leaves in one system call. HTTP/2 flushes after 4 KiB, two or three events, and ten watchers
// of a connection hear of a write at once.
type Listener struct{ net.Listener }

// Accept implements net.Listener.
func (l Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetKeepAlive(true) // as the library does: a connection without it works
		_ = t.SetKeepAlivePeriod(keepAlive)
	}
	return newBatchingConn(c), nil
}

// batchingConn gathers what is written. Like TCP it takes bytes before they have left; an error is
// told at the next write.
type batchingConn struct {
	net.Conn

	mu               sync.Mutex
	cond             sync.Cond // something left, or cannot
	pending          []byte
	reusable         []byte
	sending          bool // send runs
	closing          bool
	deadlineExceeded bool // the deadline of writes was over when it was set
	err              error
	lastWrite        time.Time
}

func newBatchingConn(inner net.Conn) *batchingConn {
	c := &batchingConn{Conn: inner}
	c.cond.L = &c.mu
	return c
}

// Write implements net.Conn.
func (c *batchingConn) Write(p []byte) (int, error) {
	now := time.Now()
	c.mu.Lock()
	for len(c.pending) > maxPending && c.err == nil && !c.closing && !c.deadlineExceeded {
		c.cond.Wait()
	}
	alone := !c.sending && (len(p) >= directWriteSize || now.Sub(c.lastWrite) >= idleThreshold)
	c.lastWrite = now
	switch {
	case c.closing:
		c.mu.Unlock()
		return 0, net.ErrClosed
	case c.err != nil:
		defer c.mu.Unlock()
		return 0, c.err
	case c.deadlineExceeded:
		c.mu.Unlock()
		return 0, os.ErrDeadlineExceeded
	case alone:
		c.mu.Unlock()
		return c.Conn.Write(p)
	}
	c.pending = append(c.pending, p...)
	if !c.sending {
		c.sending = true
		go c.send()
	}
	c.mu.Unlock()
	return len(p), nil
}

// send writes until nothing waits. Others that have something to say get the processor first.
func (c *batchingConn) send() {
	runtime.Gosched()
	c.mu.Lock()
	for len(c.pending) > 0 && c.err == nil {
		p := c.pending
		c.pending, c.reusable = c.reusable[:0], nil
		c.mu.Unlock()
		_, err := c.Conn.Write(p)
		c.mu.Lock()
		if c.err = err; cap(p) <= maxBuffer {
			c.reusable = p
		}
		c.cond.Broadcast()
	}
	c.sending = false
	c.cond.Broadcast()
	closing := c.closing
	c.mu.Unlock()
	if closing {
		_ = c.Conn.Close() // Close could not wait to hear of it
	}
}

// Close implements net.Conn. What waits is still sent, for a second at most; nothing is read any
// more.
func (c *batchingConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return net.ErrClosed
	}
	c.closing = true
	if !c.sending {
		return c.Conn.Close()
	}
	c.cond.Broadcast()
	_ = c.Conn.SetWriteDeadline(time.Now().Add(closeTimeout)) // both fail only where the connection is closed
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
	return nil
}

// SetDeadline implements net.Conn; that of a closed connection stands.
func (c *batchingConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *batchingConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return net.ErrClosed
	}
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn. One that is over already refuses writes from now on, as
// crypto/tls wants it after its last word; what was taken before still has a second to leave.
func (c *batchingConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return net.ErrClosed
	}
	now := time.Now()
	if c.deadlineExceeded = !t.IsZero() && !t.After(now); c.deadlineExceeded && c.sending {
		c.cond.Broadcast()
		t = now.Add(closeTimeout)
	}
	return c.Conn.SetWriteDeadline(t)
}
