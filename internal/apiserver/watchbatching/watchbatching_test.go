package watchbatching

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// chunkRecorder is a client's side: what arrived, and in how many pieces.
type chunkRecorder struct {
	*httptest.ResponseRecorder
	body    strings.Builder
	flushes int
}

func (p *chunkRecorder) Write(b []byte) (int, error) { return p.body.Write(b) }
func (p *chunkRecorder) Flush()                      { p.flushes++ }
func (p *chunkRecorder) CloseNotify() <-chan bool    { return nil }
func line(watcher, n int) string                     { return fmt.Sprintf("watcher %d event %d\n", watcher, n) }
func request(ctx context.Context) *http.Request {
	return httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
}
func flush(w http.ResponseWriter) { w.(http.Flusher).Flush() }
func writeEvent(t *testing.T, w http.ResponseWriter, s string) {
	if n, err := w.Write([]byte(s)); err != nil || n != len(s) {
		t.Errorf("wrote %d of %d: %v", n, len(s), err)
	}
}

// flushConcurrently sends watchers the same events, one each millisecond, each through a channel as
// a watch's handler does, and returns what they got.
func flushConcurrently(t *testing.T, watchers, events int) []*chunkRecorder {
	var o Batcher
	var got []*chunkRecorder
	var in []chan int
	for n := range watchers {
		p, ch := &chunkRecorder{ResponseRecorder: httptest.NewRecorder()}, make(chan int, 20)
		got, in = append(got, p), append(in, ch)
		go o.ServeWatch(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			flush(w) // the head
			for e := range ch {
				writeEvent(t, w, line(n, e))
				if len(ch) == 0 {
					flush(w)
				}
			}
		}), p, request(t.Context()))
	}
	for e := range events {
		for n, ch := range in {
			select {
			case ch <- e:
			default:
				t.Fatalf("watcher %d has no room for event %d", n, e)
			}
		}
		time.Sleep(time.Millisecond) // of the bubble's time
	}
	for _, ch := range in {
		close(ch)
	}
	time.Sleep(time.Second)
	synctest.Wait()
	return got
}

// Concurrent watches share buffers: each gets all of its events in order, with each flush.
func TestConcurrentWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events = 200
		for n, p := range flushConcurrently(t, 100, events) {
			var want strings.Builder
			for e := range events {
				want.WriteString(line(n, e))
			}
			if got := p.body.String(); got != want.String() {
				t.Fatalf("watcher %d got\n%s\nwant\n%s", n, got, want.String())
			}
			if p.flushes != events+1 {
				t.Errorf("watcher %d got %d flushes, want %d", n, p.flushes, events+1)
			}
		}
	})
}

// What was written last arrives without a flush, as it does from any handler; much arrives before
// one.
func TestLastEventArrivesWithoutFlush(t *testing.T) {
	var o Batcher
	p := &chunkRecorder{ResponseRecorder: httptest.NewRecorder()}
	much := strings.Repeat("x", maxBuffer+1)
	o.ServeWatch(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeEvent(t, w, much)
		if p.body.Len() != len(much) {
			t.Errorf("%d bytes arrived, want %v", p.body.Len(), len(much))
		}
		writeEvent(t, w, "end")
		if p.body.Len() != len(much) {
			t.Errorf("a little arrived without a flush: got %v, want %v", p.body.Len(), len(much))
		}
	}), p, request(t.Context()))
	if !strings.HasSuffix(p.body.String(), "xend") {
		t.Error("the end is missing")
	}
}

type failingWriter struct{ *chunkRecorder }

func (failingWriter) Write([]byte) (int, error) { return 0, http.ErrHandlerTimeout }

// A write that fails is reported by the next one.
func TestFailedWriteIsReportedByTheNext(t *testing.T) {
	var o Batcher
	o.ServeWatch(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeEvent(t, w, "event")
		flush(w)
		if _, err := w.Write([]byte("event")); err == nil {
			t.Error("a write after a failed one got no error, want one")
		}
	}), failingWriter{&chunkRecorder{ResponseRecorder: httptest.NewRecorder()}}, request(t.Context()))
}
