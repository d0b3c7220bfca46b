package watchbatching

import (
	"net"
	"os"
	"runtime"
	"sync"
	"time"
)

const (
	// idleThreshold is how long a connection must not have been written to for the next write to be
	// sent directly.
	idleThreshold = time.Millisecond
	// directWriteSize is the size, in bytes, from which a write is sent directly.
	directWriteSize = 8 << 10
	// maxPending is how many bytes may be pending before Write blocks.
	maxPending = 256 << 10
	// closeTimeout is how long the peer of a closed connection, or of one whose write deadline has
	// passed, has to receive the pending bytes.
	closeTimeout = time.Second
	// keepAlive is the period of TCP keep-alive: that of k8s.io/apiserver, which can set it only on
	// a *net.TCPConn.
	keepAlive = 3 * time.Minute
)

// Listener accepts connections that join writes: what is written within a burst is sent by one
// system call. net/http's HTTP/2 flushes every 4 KiB (two or three events), and the watchers of one
// connection get a write's event at about the same time.
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

// batchingConn joins writes. Write returns before the bytes are sent, as TCP does; an error of the
// connection is returned by the next Write. Safe for concurrent use, as net.Conn requires. A
// goroutine (send) exists only while bytes are pending.
type batchingConn struct {
	net.Conn
	closeTimeout time.Duration

	mu               sync.Mutex
	cond             sync.Cond // pending bytes are being sent, were sent, or cannot be
	pending          []byte    // not sent yet
	reusable         []byte    // the buffer that was sent last
	sending          bool      // the goroutine of send exists
	closing          bool      // Close was called
	deadlineExceeded bool      // the write deadline had passed when it was set
	err              error     // of the connection
	lastWrite        time.Time
}

// newBatchingConn returns a connection over inner, which it owns.
func newBatchingConn(inner net.Conn) *batchingConn {
	c := &batchingConn{Conn: inner, closeTimeout: closeTimeout}
	c.cond.L = &c.mu
	return c
}

// Write implements net.Conn. It blocks while more than maxPending bytes are pending.
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

// send sends until nothing is pending. It yields the processor first, so that other writers of the
// burst can append.
func (c *batchingConn) send() {
	runtime.Gosched()
	c.mu.Lock()
	for len(c.pending) > 0 && c.err == nil {
		p := c.pending
		c.pending, c.reusable = c.reusable[:0], nil
		c.cond.Broadcast() // a blocked Write may append again
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
		_ = c.Conn.Close() // Close has returned already: nobody gets the error
	}
}

// Close implements net.Conn. Pending bytes are still sent, for closeTimeout at most; reads end at
// once.
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
	_ = c.Conn.SetWriteDeadline(time.Now().Add(c.closeTimeout)) // both fail only where the connection is closed
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
	return nil
}

// SetDeadline implements net.Conn. After Close it returns net.ErrClosed, as all deadlines do: the
// one that Close has set stays.
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

// SetWriteDeadline implements net.Conn. A deadline in the past refuses writes from now on, as
// crypto/tls needs after its close_notify; bytes that are pending still have closeTimeout to be
// sent.
func (c *batchingConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return net.ErrClosed
	}
	now := time.Now()
	if c.deadlineExceeded = !t.IsZero() && !t.After(now); c.deadlineExceeded && c.sending {
		c.cond.Broadcast()
		t = now.Add(c.closeTimeout)
	}
	return c.Conn.SetWriteDeadline(t)
}
