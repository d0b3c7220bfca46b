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
	// flushThreshold is how many bytes of a response are buffered before the client sees them
	// without a flush.
	flushThreshold = 256 << 10
	// unreadLimit is how many bytes a client may leave unread before the handler's Write blocks.
	unreadLimit = 1 << 20
)

// errAborted is what Read returns when the handler has panicked.
var errAborted = errors.New("the API server broke off the answer")

// inProcessResponse is both the http.ResponseWriter of an in-process request and the Body of its
// response: the two ends of one buffer. One goroutine may write while another reads.
type inProcessResponse struct {
	method string
	cancel context.CancelFunc // ends the request when the client closes the body

	mu         sync.Mutex
	cond       sync.Cond // the buffer, closed or ended has changed
	header     http.Header
	sentHeader http.Header // the copy that the client gets; set at the first flush or at the end
	status     int
	buf        bytes.Buffer
	ended      bool
	err        error // why it ended; nil for a complete response
	closed     bool  // the client has closed the body
	headerSent chan struct{}
}

// newInProcessResponse returns the response of a request; cancel ends the request's context.
func newInProcessResponse(req *http.Request, cancel context.CancelFunc) *inProcessResponse {
	p := &inProcessResponse{method: req.Method, cancel: cancel, header: http.Header{}, headerSent: make(chan struct{})}
	p.cond.L = &p.mu
	return p
}

// Header implements http.ResponseWriter.
func (p *inProcessResponse) Header() http.Header { return p.header }

// WriteHeader implements http.ResponseWriter; informational statuses are left out.
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

// sendHeader makes the response visible to the client. p.mu is held.
func (p *inProcessResponse) sendHeader() {
	select {
	case <-p.headerSent:
	default:
		close(p.headerSent)
	}
}

// Write implements http.ResponseWriter. It blocks while more than unreadLimit bytes are unread.
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

// Flush implements http.Flusher: it makes what was written visible and wakes the client, once for
// all the writes of an event.
func (p *inProcessResponse) Flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setStatus(http.StatusOK)
	p.sendHeader()
	p.cond.Broadcast()
}

// CloseNotify implements http.CloseNotifier, which handlers of old ask for; the request's context
// tells that the client left.
func (p *inProcessResponse) CloseNotify() <-chan bool { return nil }

// finish ends the response; err is nil for a complete one.
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

// response waits until the handler has flushed or returned.
func (p *inProcessResponse) response(ctx context.Context) (*http.Response, error) {
	select {
	case <-p.headerSent:
	case <-ctx.Done():
		_ = p.Close() // nobody will read the response
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

// Read implements io.Reader for the client.
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

// Close implements io.Closer for the client: it ends the request's context, as closing a stream
// does.
func (p *inProcessResponse) Close() error {
	p.mu.Lock()
	p.closed = true
	p.cond.Broadcast()
	p.mu.Unlock()
	p.cancel()
	return nil
}
