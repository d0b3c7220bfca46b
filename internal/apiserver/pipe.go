package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
)

const (
	// holdBack is how much of an answer is kept before the client gets to see it without a flush.
	holdBack = 256 << 10
	// window is how much a client may leave unread before the handler has to wait.
	window = 1 << 20
)

// errAborted is what a client reads when the handler broke off.
var errAborted = errors.New("the API server broke off the answer")

// pipe is the ResponseWriter of an in-process request and the body of its answer: two sides of one buffer.
type pipe struct {
	method string
	cancel context.CancelFunc // ends the request when the client closes the body

	mu     sync.Mutex
	moved  sync.Cond // something was written, read, closed or ended
	header http.Header
	sent   http.Header // what the client sees, from the first flush or the end on
	status int
	buf    bytes.Buffer
	ended  bool
	err    error // why it ended, nil for a full answer
	closed bool  // the client wants no more
	began  chan struct{}
}

func newPipe(req *http.Request, cancel context.CancelFunc) *pipe {
	p := &pipe{method: req.Method, cancel: cancel, header: http.Header{}, began: make(chan struct{})}
	p.moved.L = &p.mu
	return p
}

// Header is what the handler fills in.
func (p *pipe) Header() http.Header { return p.header }

// WriteHeader fixes status and headers; informational ones are dropped.
func (p *pipe) WriteHeader(status int) {
	if status >= 100 && status < 200 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fix(status)
}

func (p *pipe) fix(status int) {
	if p.status == 0 {
		p.status, p.sent = status, p.header.Clone()
	}
}

// begin lets the client see the answer. The lock is held.
func (p *pipe) begin() {
	select {
	case <-p.began:
	default:
		close(p.began)
	}
}

// Write adds to the answer and waits while the client leaves too much unread.
func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fix(http.StatusOK)
	if p.method == http.MethodHead {
		return len(b), nil
	}
	for p.buf.Len() > window && !p.closed {
		p.begin()
		p.moved.Wait()
	}
	if p.closed {
		return 0, fmt.Errorf("the client closed the answer: %w", io.ErrClosedPipe)
	}
	p.buf.Write(b)
	if p.buf.Len() > holdBack {
		p.begin()
		p.moved.Broadcast()
	}
	return len(b), nil
}

// Flush lets the client see what was written so far. A client that waits is woken here, once for all the pieces of an event.
func (p *pipe) Flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fix(http.StatusOK)
	p.begin()
	p.moved.Broadcast()
}

// CloseNotify is asked for by the library's wrappers; requests end by their context.
func (p *pipe) CloseNotify() <-chan bool { return nil }

// finish ends the answer.
func (p *pipe) finish(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.fix(http.StatusOK)
	}
	p.ended, p.err = true, err
	p.begin()
	p.moved.Broadcast()
}

// response waits for the answer to begin.
func (p *pipe) response(ctx context.Context) (*http.Response, error) {
	select {
	case <-p.began:
	case <-ctx.Done():
		_ = p.Close() // nobody reads the answer
		return nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status == 0 {
		return nil, p.err
	}
	res := &http.Response{
		StatusCode: p.status, Status: strconv.Itoa(p.status) + " " + http.StatusText(p.status),
		Proto: "HTTP/2.0", ProtoMajor: 2, Header: p.sent, Body: p, ContentLength: -1,
	}
	if p.ended && p.err == nil {
		res.ContentLength = int64(p.buf.Len())
	}
	return res, nil
}

// Read is the client's side.
func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.buf.Len() == 0 && !p.ended && !p.closed {
		p.moved.Wait()
	}
	switch {
	case p.closed:
		return 0, http.ErrBodyReadAfterClose
	case p.buf.Len() > 0:
		n, _ := p.buf.Read(b)
		p.moved.Broadcast()
		return n, nil
	case p.err != nil:
		return 0, p.err
	}
	return 0, io.EOF
}

// Close ends the request, as closing a stream does.
func (p *pipe) Close() error {
	p.mu.Lock()
	p.closed = true
	p.moved.Broadcast()
	p.mu.Unlock()
	p.cancel()
	return nil
}
