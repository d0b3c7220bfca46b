package server

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"time"
)

// defaultIdle is streamingConnectionIdleTimeout's default.
const defaultIdle = 4 * time.Hour

// withIdleTimeout makes the connection that a handler takes over end when nothing moves on it for
// Endpoints.Idle.
func (s *Server) withIdleTimeout(w http.ResponseWriter) http.ResponseWriter {
	limit := s.opts.Endpoints.Idle
	if limit <= 0 {
		limit = defaultIdle
	}
	return idleWriter{w, limit}
}

type idleWriter struct {
	http.ResponseWriter
	limit time.Duration
}

// Hijack takes the connection over and watches it.
func (w idleWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h, ok := w.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, errors.New("the connection cannot be upgraded: use HTTP/1.1")
	}
	conn, rw, err := h.Hijack()
	if err != nil {
		return nil, nil, err
	}
	c := &idleConn{Conn: conn, limit: w.limit}
	c.timer = time.AfterFunc(w.limit, func() { _ = conn.Close() })
	// What the server has read ahead stays in the reader; what it reads from now on is seen.
	buffered := rw.Reader.Buffered()
	if buffered > 0 {
		seen, err := rw.Reader.Peek(buffered)
		if err != nil {
			return nil, nil, err
		}
		c.buffered = append(c.buffered, seen...)
	}
	return c, bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c)), nil
}

// Flush passes on.
func (w idleWriter) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// idleConn closes itself when nothing is read or written for limit.
type idleConn struct {
	net.Conn
	limit    time.Duration
	timer    *time.Timer
	buffered []byte
}

// Read reads and counts as movement.
func (c *idleConn) Read(b []byte) (int, error) {
	if len(c.buffered) > 0 {
		n := copy(b, c.buffered)
		c.buffered = c.buffered[n:]
		return n, nil
	}
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.timer.Reset(c.limit)
	}
	return n, err
}

// Write writes and counts as movement.
func (c *idleConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if n > 0 {
		c.timer.Reset(c.limit)
	}
	return n, err
}

// Close ends the watch too.
func (c *idleConn) Close() error {
	c.timer.Stop()
	return c.Conn.Close()
}
