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
	// activePeriod is how long a watcher counts as active after a flush.
	activePeriod = 50 * time.Millisecond
	// maxBuffer is how many bytes of a response are buffered before they are written without a
	// flush.
	maxBuffer = 64 << 10
	// frameHeaderSize is the length, in bytes, of the length prefix that the protobuf framer writes
	// before each event, in a call of its own.
	frameHeaderSize = 4
)

// Batcher counts the active watches of one server. The zero value is ready; safe for concurrent
// use.
type Batcher struct {
	period atomic.Int64 // the current activePeriod, numbered from 1970
	// watchers that were flushed in this period and in the one before, indexed by the period's
	// parity
	active    [2]atomic.Int64
	lateUntil atomic.Int64 // the last period without delays, as timers have fired late
	buffers   sync.Pool    // of []byte
}

// ServeWatch calls next with a ResponseWriter that buffers writes until they are flushed and delays
// after a flush. It returns when next does. The handler chain calls it for watches over the
// network.
func (o *Batcher) ServeWatch(next http.Handler, w http.ResponseWriter, req *http.Request) {
	a := &watchResponse{ResponseWriter: w, batcher: o, ctx: req.Context(), delayedAt: time.Now()}
	next.ServeHTTP(responsewriter.WrapForHTTP1Or2(a), req)
	a.flushBuffer()
}

// countWatcher counts a flushed watcher in a period, if it is its first flush there, and returns
// how many watchers were flushed in this period or in the last one, whichever is more.
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

// watchResponse is the ResponseWriter of one watch; only the watch's handler uses it.
type watchResponse struct {
	http.ResponseWriter
	batcher          *Batcher
	ctx              context.Context
	err              error   // of the last write
	buffer           *[]byte // from the Batcher's pool; nil when empty
	eventsSinceDelay int     // since delayedAt
	eventsSinceFlush int
	period           int64     // of the last flush
	delayedAt        time.Time // when the last delay began
	burstAt          time.Time // when a flush last had more events than two channels of the cacher hold
	timer            *time.Timer
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (a *watchResponse) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Write buffers p until the next Flush, or writes when more than maxBuffer bytes are buffered. An
// error is that of an earlier write to the connection.
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

// Flush implements http.Flusher: it sends what is buffered, then delays if it sent anything.
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

// delay waits for FlushDelay or until the request ends, so that events collect.
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

// untilTick returns the time to the next multiple of d, so that all watchers with that delay wake
// at once and their writes are joined.
func untilTick(now time.Time, d time.Duration) time.Duration { return now.Truncate(d).Add(d).Sub(now) }

func processors() int { return runtime.GOMAXPROCS(0) }
