package watchbatching

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

const (
	// activePeriod is how long a watcher that was flushed counts as busy.
	activePeriod = 50 * time.Millisecond
	// maxBuffer is how much of an answer is kept until it is flushed, in bytes.
	maxBuffer = 64 << 10
	// frameHeaderSize is the length of what comes before each event of some encodings, in a write
	// of its own.
	frameHeaderSize = 4
)

// Batcher is shared by the watches of a server. The zero value is ready.
type Batcher struct {
	period atomic.Int64 // the number of the period of lately that now counts
	// watchers that were flushed in this period and in the one before, by the parity of its number
	active    [2]atomic.Int64
	lateUntil atomic.Int64 // the last period in which nobody rests, as rests ended overdue
	buffers   sync.Pool    // of []byte
}

// ServeWatch answers a watch by way of the outlet.
func (o *Batcher) ServeWatch(next http.Handler, w http.ResponseWriter, req *http.Request) {
	a := &watchResponse{ResponseWriter: w, batcher: o, ctx: req.Context(), delayedAt: time.Now()}
	next.ServeHTTP(responsewriter.WrapForHTTP1Or2(a), req)
	a.flushBuffer()
}

// countWatcher notes that a watcher was flushed in a period, once per watcher and period, and
// returns how many were in the busier of this and the last one.
func (o *Batcher) countWatcher(period int64, first bool) int {
	if last := o.period.Load(); last < period && o.period.CompareAndSwap(last, period) {
		o.active[period&1].Store(0)
		if last < period-1 {
			o.active[1-period&1].Store(0)
		}
	}
	if first {
		o.active[period&1].Add(1)
	}
	return int(max(o.active[0].Load(), o.active[1].Load()))
}

// watchResponse is the answer to one watch. Only the watch's handler touches it.
type watchResponse struct {
	http.ResponseWriter
	batcher          *Batcher
	ctx              context.Context
	err              error // of the last write
	buffer           *[]byte
	eventsSinceDelay int // since the last rest
	eventsSinceFlush int // events since the last flush
	period           int64
	delayedAt        time.Time // when the last rest began
	burstAt          time.Time // when more came in a piece than a watch cache and its watch have room for
	timer            *time.Timer
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (a *watchResponse) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Write keeps what is written until it is flushed, or until it is much. An error is that of an
// earlier write.
func (a *watchResponse) Write(p []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	if len(p) > frameHeaderSize {
		a.eventsSinceDelay++
		a.eventsSinceFlush++
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

// flushBuffer writes what was kept.
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

// Flush sends what was written, then rests.
func (a *watchResponse) Flush() {
	some := a.buffer != nil
	a.flushBuffer()
	if f, ok := a.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
	if some {
		a.delay(time.Now())
	}
}

// delay lets events gather.
func (a *watchResponse) delay(now time.Time) {
	period := now.UnixNano() / int64(activePeriod)
	watchers := a.batcher.countWatcher(period, period != a.period)
	a.period = period
	since := now.Sub(a.delayedAt)
	if a.eventsSinceFlush > 2*maxDelayedEvents {
		a.burstAt = now
	}
	a.eventsSinceFlush = 0
	d := FlushDelay(FlushStats{Watchers: watchers, Processors: processors(), Events: a.eventsSinceDelay, Since: since,
		Burst: now.Sub(a.burstAt) < burstPeriod, Late: a.batcher.lateUntil.Load() >= period})
	if d > 0 || since > activePeriod || a.eventsSinceDelay > maxDelayedEvents {
		a.eventsSinceDelay, a.delayedAt = 0, now
	}
	if d == 0 {
		return
	}
	d = untilTick(now, d)
	if a.timer == nil {
		a.timer = time.NewTimer(d)
	} else {
		a.timer.Reset(d)
	}
	select {
	case <-a.timer.C:
		if time.Since(now) > d+lateThreshold {
			a.batcher.lateUntil.Store(period + 2)
		}
	case <-a.ctx.Done():
	}
}

// untilTick is the time to the next point of a raster that all watchers share, so that they wake at
// once and what they send travels together.
func untilTick(now time.Time, d time.Duration) time.Duration { return now.Truncate(d).Add(d).Sub(now) }

func processors() int { return runtime.GOMAXPROCS(0) }
