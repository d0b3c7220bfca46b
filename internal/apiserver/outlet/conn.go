package outlet

import (
	"net"
	"os"
	"runtime"
	"sync"
	"time"
)

const (
	// calm is how long a connection must not have been written to for the next write to go out by itself.
	calm = time.Millisecond
	// large is a write that is worth a system call.
	large = 8 << 10
	// mostWaiting is how much may wait before who writes waits too, in bytes.
	mostWaiting = 256 << 10
	// farewell is how long the peer of a connection that is closed, or written to no more, has to take what waited.
	farewell = time.Second
	// keepAlive is how often an idle connection is tried: the library's, which it can set only on a connection that it knows.
	keepAlive = 3 * time.Minute
)

// Listener accepts connections whose writes travel together: what is written in a burst is gathered and leaves in one system call. HTTP/2 flushes after
// 4 KiB, two or three events, and ten watchers of a connection hear of a write at once.
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
	return gather(c), nil
}

// conn gathers what is written. Like TCP it takes bytes before they have left; an error is told at the next write.
type conn struct {
	net.Conn

	mu      sync.Mutex
	moved   sync.Cond // something left, or cannot
	waiting []byte
	spare   []byte
	sending bool // send runs
	closing bool
	over    bool // the deadline of writes was over when it was set
	err     error
	last    time.Time
}

func gather(inner net.Conn) *conn {
	c := &conn{Conn: inner}
	c.moved.L = &c.mu
	return c
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	now := time.Now()
	c.mu.Lock()
	for len(c.waiting) > mostWaiting && c.err == nil && !c.closing && !c.over {
		c.moved.Wait()
	}
	alone := !c.sending && (len(p) >= large || now.Sub(c.last) >= calm)
	c.last = now
	switch {
	case c.closing:
		c.mu.Unlock()
		return 0, net.ErrClosed
	case c.err != nil:
		defer c.mu.Unlock()
		return 0, c.err
	case c.over:
		c.mu.Unlock()
		return 0, os.ErrDeadlineExceeded
	case alone:
		c.mu.Unlock()
		return c.Conn.Write(p)
	}
	c.waiting = append(c.waiting, p...)
	if !c.sending {
		c.sending = true
		go c.send()
	}
	c.mu.Unlock()
	return len(p), nil
}

// send writes until nothing waits. Others that have something to say get the processor first.
func (c *conn) send() {
	runtime.Gosched()
	c.mu.Lock()
	for len(c.waiting) > 0 && c.err == nil {
		p := c.waiting
		c.waiting, c.spare = c.spare[:0], nil
		c.mu.Unlock()
		_, err := c.Conn.Write(p)
		c.mu.Lock()
		if c.err = err; cap(p) <= mostKept {
			c.spare = p
		}
		c.moved.Broadcast()
	}
	c.sending = false
	c.moved.Broadcast()
	closing := c.closing
	c.mu.Unlock()
	if closing {
		_ = c.Conn.Close() // Close could not wait to hear of it
	}
}

// Close implements net.Conn. What waits is still sent, for a second at most; nothing is read any more.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return net.ErrClosed
	}
	c.closing = true
	if !c.sending {
		return c.Conn.Close()
	}
	c.moved.Broadcast()
	_ = c.Conn.SetWriteDeadline(time.Now().Add(farewell)) // both fail only where the connection is closed
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
	return nil
}

// SetDeadline implements net.Conn; that of a closed connection stands.
func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return net.ErrClosed
	}
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn. One that is over already refuses writes from now on, as crypto/tls wants it after its last word; what was taken
// before still has a second to leave.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return net.ErrClosed
	}
	now := time.Now()
	if c.over = !t.IsZero() && !t.After(now); c.over && c.sending {
		c.moved.Broadcast()
		t = now.Add(farewell)
	}
	return c.Conn.SetWriteDeadline(t)
}
