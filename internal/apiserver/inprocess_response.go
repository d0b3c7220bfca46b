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
	// flushThreshold is how much of an answer is kept before the client gets to see it without a
	// flush.
	flushThreshold = 256 << 10
	// unreadLimit is how much a client may leave unread before the handler has to wait.
	unreadLimit = 1 << 20
)

// errAborted is what a client reads when the handler broke off.
var errAborted = errors.New("the API server broke off the answer")

// inProcessResponse is the ResponseWriter of an in-process request and the body of its answer: two
// sides of one buffer.
type inProcessResponse struct {
	method string
	cancel context.CancelFunc // ends the request when the client closes the body

	mu         sync.Mutex
	cond       sync.Cond // something was written, read, closed or ended
	header     http.Header
	sentHeader http.Header // what the client sees, from the first flush or the end on
	status     int
	buf        bytes.Buffer
	ended      bool
	err        error // why it ended, nil for a full answer
	closed     bool  // the client wants no more
	headerSent chan struct{}
}

func newInProcessResponse(req *http.Request, cancel context.CancelFunc) *inProcessResponse {
	p := &inProcessResponse{method: req.Method, cancel: cancel, header: http.Header{}, headerSent: make(chan struct{})}
	p.cond.L = &p.mu
	return p
}

// Header is what the handler fills in.
func (p *inProcessResponse) Header() http.Header { return p.header }

// WriteHeader fixes status and headers; informational ones are dropped.
func (p *inProcessResponse) WriteHeader(status int) {
	if status >= 100 && status < 200 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setStatus(status)
}

func (p *inProcessResponse) setStatus(status int) {
	if p.status == 0 {
		p.status, p.sentHeader = status, p.header.Clone()
	}
}

// sendHeader lets the client see the answer. The lock is held.
func (p *inProcessResponse) sendHeader() {
	select {
	case <-p.headerSent:
	default:
		close(p.headerSent)
	}
}

// Write adds to the answer and waits while the client leaves too much unread.
func (p *inProcessResponse) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setStatus(http.StatusOK)
	if p.method == http.MethodHead {
		return len(b), nil
	}
	for p.buf.Len() > unreadLimit && !p.closed {
		p.sendHeader()
		p.cond.Wait()
	}
	if p.closed {
		return 0, fmt.Errorf("the client closed the answer: %w", io.ErrClosedPipe)
	}
	p.buf.Write(b)
	if p.buf.Len() > flushThreshold {
		p.sendHeader()
		p.cond.Broadcast()
	}
	return len(b), nil
}

// Flush lets the client see what was written so far. A client that waits is woken here, once for
// all the pieces of an event.
func (p *inProcessResponse) Flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setStatus(http.StatusOK)
	p.sendHeader()
	p.cond.Broadcast()
}

// CloseNotify is asked for by the library's wrappers; requests end by their context.
func (p *inProcessResponse) CloseNotify() <-chan bool { return nil }

// finish ends the answer.
func (p *inProcessResponse) finish(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.setStatus(http.StatusOK)
	}
	p.ended, p.err = true, err
	p.sendHeader()
	p.cond.Broadcast()
}

// response waits for the answer to begin.
func (p *inProcessResponse) response(ctx context.Context) (*http.Response, error) {
	select {
	case <-p.headerSent:
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
		Proto: "HTTP/2.0", ProtoMajor: 2, Header: p.sentHeader, Body: p, ContentLength: -1,
	}
	if p.ended && p.err == nil {
		res.ContentLength = int64(p.buf.Len())
	}
	return res, nil
}

// Read is the client's side.
func (p *inProcessResponse) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.buf.Len() == 0 && !p.ended && !p.closed {
		p.cond.Wait()
	}
	switch {
	case p.closed:
		return 0, http.ErrBodyReadAfterClose
	case p.buf.Len() > 0:
		n, _ := p.buf.Read(b)
		p.cond.Broadcast()
		return n, nil
	case p.err != nil:
		return 0, p.err
	}
	return 0, io.EOF
}

// Close ends the request, as closing a stream does.
func (p *inProcessResponse) Close() error {
	p.mu.Lock()
	p.closed = true
	p.cond.Broadcast()
	p.mu.Unlock()
	p.cancel()
	return nil
}
