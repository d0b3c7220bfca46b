package watchbatching

import (
	"net/http"
	"sync"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// maxBuffer is how many bytes of a response are buffered before they are written without a flush.
const maxBuffer = 64 << 10

// Batcher buffers the watch responses of one server. The zero value is ready; safe for concurrent
// use.
type Batcher struct{ buffers sync.Pool } // of *[]byte

// ServeWatch calls next with a ResponseWriter that buffers writes until they are flushed: the
// length prefix and the body of an event, and all events that come between two flushes, become one
// write. It returns when next does. The handler chain calls it for watches over the network.
func (o *Batcher) ServeWatch(next http.Handler, w http.ResponseWriter, req *http.Request) {
	a := &watchResponse{ResponseWriter: w, batcher: o}
	next.ServeHTTP(responsewriter.WrapForHTTP1Or2(a), req)
	a.flushBuffer()
}

// watchResponse is the ResponseWriter of one watch; only the watch's handler uses it.
type watchResponse struct {
	http.ResponseWriter
	batcher *Batcher
	err     error   // of the last write
	buffer  *[]byte // from the Batcher's pool; nil when empty
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (a *watchResponse) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Write buffers p until the next Flush, or writes when more than maxBuffer bytes are buffered. An
// error is that of an earlier write to the connection.
func (a *watchResponse) Write(p []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	if a.buffer == nil {
		if a.buffer, _ = a.batcher.buffers.Get().(*[]byte); a.buffer == nil {
			a.buffer = new([]byte)
		}
	}
	if *a.buffer = append(*a.buffer, p...); len(*a.buffer) > maxBuffer {
		a.flushBuffer()
	}
	return len(p), a.err
}

// flushBuffer writes the buffer to the underlying ResponseWriter and returns it to the pool.
func (a *watchResponse) flushBuffer() {
	if a.buffer == nil {
		return
	}
	_, a.err = a.ResponseWriter.Write(*a.buffer)
	if cap(*a.buffer) <= 2*maxBuffer {
		*a.buffer = (*a.buffer)[:0]
		a.batcher.buffers.Put(a.buffer)
	}
	a.buffer = nil
}

// Flush implements http.Flusher: it sends what is buffered.
func (a *watchResponse) Flush() {
	a.flushBuffer()
	if f, ok := a.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}
