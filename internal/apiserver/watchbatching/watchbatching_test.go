package watchbatching

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestRest(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		beat FlushStats
		want time.Duration
	}{
		"alone":     {FlushStats{Watchers: 1, Processors: 2, Events: 1, Since: time.Second}, 0},
		"few":       {FlushStats{Watchers: 12, Processors: 2, Events: 1, Since: time.Second}, 0},
		"some":      {FlushStats{Watchers: 13, Processors: 2, Events: 1, Since: time.Second}, 1 * ms},
		"a hundred": {FlushStats{Watchers: 100, Processors: 2, Events: 4, Since: 4 * ms}, 4 * ms},
		"a hundred on a big one": {FlushStats{Watchers: 100, Processors: 16, Events: 4, Since: 4 * ms},
			500 * time.Microsecond},
		"a crowd": {FlushStats{Watchers: 10_000, Processors: 2, Events: 1, Since: time.Second},
			maxDelay},
		"more than there is room": {FlushStats{Watchers: 100, Processors: 2, Events: 6, Since: 3 * ms}, 2 * ms},
		"a burst":                 {FlushStats{Watchers: 100, Processors: 2, Events: 7, Since: time.Second}, 0},
		"in a time of bursts":     {FlushStats{Watchers: 100, Processors: 2, Events: 1, Since: 4 * ms, Burst: true}, 0},
		"woken late":              {FlushStats{Watchers: 100, Processors: 2, Events: 1, Since: 4 * ms, Late: true}, 0},
		"a list":                  {FlushStats{Watchers: 100, Processors: 2, Events: 1000, Since: 4 * ms}, 0},
		"nothing is known":        {FlushStats{}, 0},
	} {
		if got := FlushDelay(c.beat); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A rest is bounded, and at the pace of before fewer events come in it than a watch cache has room
// for.
func TestRestIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := FlushStats{
			Watchers:   rapid.IntRange(0, 1_000_000).Draw(t, "watchers"),
			Processors: rapid.IntRange(0, 512).Draw(t, "processors"),
			Events:     rapid.IntRange(0, 1_000_000).Draw(t, "events"),
			Since:      time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "since")),
		}
		d := FlushDelay(b)
		if d < 0 || d > maxDelay {
			t.Fatalf("a rest of %s", d)
		}
		if d > 0 && float64(b.Events)*float64(d) > maxDelayedEvents*float64(b.Since) {
			t.Fatalf("%d events in %s before a rest of %s", b.Events, b.Since, d)
		}
	})
}

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

// flushConcurrently lets watchers hear the same events, one each millisecond, each through a
// channel as a watch's handler does, and returns what they got.
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

// Everybody gets all events in order; the many in fewer pieces, the few each event at once.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events = 200
		for _, watchers := range []int{1, 200 * processors()} {
			for n, p := range flushConcurrently(t, watchers, events) {
				var want strings.Builder
				for e := range events {
					want.WriteString(line(n, e))
				}
				if p.body.String() != want.String() {
					t.Fatalf("watcher %d of %d got\n%s", n, watchers, p.body.String())
				}
				if watchers == 1 && p.flushes != events+1 {
					t.Errorf("who watches alone got %d events in %d pieces", events, p.flushes)
				}
				if watchers > 1 && p.flushes > events/2 {
					t.Fatalf("watcher %d of %d got %d events in %d pieces", n, watchers, events, p.flushes)
				}
			}
		}
	})
}

// Writes that come in bursts find watchers that read. A watch cache has room for ten events and its
// watch for as many; it waits for the slow 50 ms of each second in all, then closes their watches.
// In no time of the bubble's do handlers write: all that the cache waits for is their rest.
func TestBurstsFindWatchersAwake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room, burst, budget = 20, 30, 50 * time.Millisecond
		var o Batcher
		var in []chan int
		for range 200 * processors() {
			ch := make(chan int, room)
			in = append(in, ch)
			go o.ServeWatch(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for e := range ch {
					writeEvent(t, w, line(0, e))
					if len(ch) == 0 {
						flush(w)
					}
				}
			}), &chunkRecorder{ResponseRecorder: httptest.NewRecorder()}, request(t.Context()))
		}
		var waited time.Duration
		for begin := time.Now(); time.Since(begin) < time.Second; time.Sleep(10 * time.Millisecond) {
			at := time.Now()
			for e := range burst {
				for _, ch := range in {
					ch <- e
				}
				synctest.Wait() // each event is taken before the next is written, as far as anybody is awake
			}
			waited += time.Since(at)
		}
		for _, ch := range in {
			close(ch)
		}
		if waited > budget {
			t.Errorf("in a second the cache waited %s", waited)
		}
	})
}

// What was written last arrives without a flush, as it does from any handler; much arrives before
// one.
func TestEnd(t *testing.T) {
	var o Batcher
	p := &chunkRecorder{ResponseRecorder: httptest.NewRecorder()}
	much := strings.Repeat("x", maxBuffer+1)
	o.ServeWatch(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeEvent(t, w, much)
		if p.body.Len() != len(much) {
			t.Errorf("%d bytes arrived", p.body.Len())
		}
		writeEvent(t, w, "end")
		if p.body.Len() != len(much) {
			t.Error("a little arrived without a flush")
		}
	}), p, request(t.Context()))
	if !strings.HasSuffix(p.body.String(), "xend") {
		t.Error("the end is missing")
	}
}

type failingWriter struct{ *chunkRecorder }

func (failingWriter) Write([]byte) (int, error) { return 0, http.ErrHandlerTimeout }

// A write that fails is told at the next one.
func TestBroken(t *testing.T) {
	var o Batcher
	o.ServeWatch(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeEvent(t, w, "event")
		flush(w)
		if _, err := w.Write([]byte("event")); err == nil {
			t.Error("nobody was told")
		}
	}), failingWriter{&chunkRecorder{ResponseRecorder: httptest.NewRecorder()}}, request(t.Context()))
}

// Who goes away in a rest is let go at once.
func TestLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Batcher
		ctx, leave := context.WithCancel(t.Context())
		var ended atomic.Bool
		begin := time.Now()
		for range 500 * processors() {
			go o.ServeWatch(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for range 2 {
					writeEvent(t, w, "event")
					flush(w)
				}
				ended.Store(true)
			}), &chunkRecorder{ResponseRecorder: httptest.NewRecorder()}, request(ctx))
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		if took := time.Since(begin); !ended.Load() || took != 0 {
			t.Errorf("ended %t after %s", ended.Load(), took)
		}
	})
}
