package crifake

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// httpd answers every request with CODE (200) and BODY (ok) until it is stopped. With options it is
// busybox's: -p PORT, -h DIRECTORY whose files it serves, -f for staying in the foreground.
func httpd(c *command) int {
	if len(c.args) > 1 && strings.HasPrefix(c.args[1], "-") {
		return busyboxHttpd(c)
	}
	port, code, body := 80, 200, "ok"
	if len(c.args) > 1 {
		port, _ = strconv.Atoi(c.args[1])
	}
	if len(c.args) > 2 {
		code, _ = strconv.Atoi(c.args[2])
	}
	if len(c.args) > 3 {
		body = strings.Join(c.args[3:], " ")
	}
	srv, err := c.serve(port, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprintln(w, body)
	}))
	if err != nil {
		return c.fail(err)
	}
	runForever(c)
	_ = srv.Close()
	return 0
}

// serve answers on a port of the Pod.
func (c *command) serve(port int, h http.Handler) (*http.Server, error) {
	l := newConnListener()
	if err := c.run.p.host.listen(port, l.deliver); err != nil {
		return nil, err
	}
	srv := &http.Server{Handler: h}
	go srv.Serve(l) //nolint:errcheck // ends with Close
	return srv, nil
}

func busyboxHttpd(c *command) int {
	f := flag.NewFlagSet("httpd", flag.ContinueOnError)
	f.SetOutput(c.err)
	stays := f.Bool("f", false, "")
	port := f.Int("p", 80, "")
	dir := f.String("h", c.dir, "")
	if f.Parse(c.args[1:]) != nil {
		return 1 // serve has printed the error
	}
	srv, err := c.serve(*port, http.FileServer(http.Dir(c.run.p.hostPath(c.path(*dir)))))
	if err != nil {
		return c.fail(err)
	}
	if *stays {
		runForever(c)
		_ = srv.Close()
		return 0
	}
	context.AfterFunc(c.run.p.ctx, func() { _ = srv.Close() }) // a daemon of the container's
	return 0
}

// connListener is a net.Listener fed with connections made elsewhere.
type connListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newConnListener() *connListener {
	return &connListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *connListener) deliver(c net.Conn) {
	ended := make(chan struct{})
	select {
	case l.conns <- &watchedConn{Conn: c, ended: ended}:
		<-ended
	case <-l.closed:
		_ = c.Close()
	}
}

// Accept waits for take or Close.
func (l *connListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (l *connListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

// Addr is a placeholder the http server wants.
func (*connListener) Addr() net.Addr { return &net.TCPAddr{} }

// watchedConn says when it is closed.
type watchedConn struct {
	net.Conn
	once  sync.Once
	ended chan struct{}
}

// Close closes and says so, once.
func (c *watchedConn) Close() error {
	c.once.Do(func() { close(c.ended) })
	return c.Conn.Close()
}
