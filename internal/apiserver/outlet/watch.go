package outlet

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
	// lately is how long a watcher that was flushed counts as busy.
	lately = 50 * time.Millisecond
	// mostKept is how much of an answer is kept until it is flushed, in bytes.
	mostKept = 64 << 10
	// frameHead is the length of what comes before each event of some encodings, in a write of its own.
	frameHead = 4
)

// Outlet is shared by the watches of a server. The zero value is ready.
type Outlet struct {
	period atomic.Int64    // the number of the period of lately that now counts
	busy   [2]atomic.Int64 // watchers that were flushed in this period and in the one before, by the parity of its number
	late   atomic.Int64    // the last period in which nobody rests, as rests ended overdue
	room   sync.Pool       // of []byte
}

// Serve answers a watch by way of the outlet.
func (o *Outlet) Serve(next http.Handler, w http.ResponseWriter, req *http.Request) {
	a := &answer{ResponseWriter: w, outlet: o, ctx: req.Context(), rested: time.Now()}
	next.ServeHTTP(responsewriter.WrapForHTTP1Or2(a), req)
	a.send()
}

// count notes that a watcher was flushed in a period, once per watcher and period, and returns how many were in the busier of this and the last one.
func (o *Outlet) count(period int64, first bool) int {
	if was := o.period.Load(); was < period && o.period.CompareAndSwap(was, period) {
		o.busy[period&1].Store(0)
		if was < period-1 {
			o.busy[1-period&1].Store(0)
		}
	}
	if first {
		o.busy[period&1].Add(1)
	}
	return int(max(o.busy[0].Load(), o.busy[1].Load()))
}

// answer is the answer to one watch. Only the watch's handler touches it.
type answer struct {
	http.ResponseWriter
	outlet *Outlet
	ctx    context.Context
	err    error // of the last write
	kept   *[]byte
	events int // since the last rest
	piece  int // events since the last flush
	period int64
	rested time.Time // when the last rest began
	burst  time.Time // when more came in a piece than a watch cache and its watch have room for
	timer  *time.Timer
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Write keeps what is written until it is flushed, or until it is much. An error is that of an earlier write.
func (a *answer) Write(p []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	if len(p) > frameHead {
		a.events++
		a.piece++
	}
	if a.kept == nil {
		if a.kept, _ = a.outlet.room.Get().(*[]byte); a.kept == nil {
			a.kept = new([]byte)
		}
	}
	if *a.kept = append(*a.kept, p...); len(*a.kept) > mostKept {
		a.send()
	}
	return len(p), a.err
}

// send writes what was kept.
func (a *answer) send() {
	if a.kept == nil {
		return
	}
	_, a.err = a.ResponseWriter.Write(*a.kept)
	if cap(*a.kept) <= 2*mostKept {
		*a.kept = (*a.kept)[:0]
		a.outlet.room.Put(a.kept)
	}
	a.kept = nil
}

// Flush sends what was written, then rests.
func (a *answer) Flush() {
	some := a.kept != nil
	a.send()
	if f, ok := a.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
	if some {
		a.rest(time.Now())
	}
}

// rest lets events gather.
func (a *answer) rest(now time.Time) {
	period := now.UnixNano() / int64(lately)
	watchers := a.outlet.count(period, period != a.period)
	a.period = period
	since := now.Sub(a.rested)
	if a.piece > 2*roomy {
		a.burst = now
	}
	a.piece = 0
	d := Rest(Beat{Watchers: watchers, Processors: processors(), Events: a.events, Since: since, Burst: now.Sub(a.burst) < bursty, Late: a.outlet.late.Load() >= period})
	if d > 0 || since > lately || a.events > roomy {
		a.events, a.rested = 0, now
	}
	if d == 0 {
		return
	}
	d = together(now, d)
	if a.timer == nil {
		a.timer = time.NewTimer(d)
	} else {
		a.timer.Reset(d)
	}
	select {
	case <-a.timer.C:
		if time.Since(now) > d+overdue {
			a.outlet.late.Store(period + 2)
		}
	case <-a.ctx.Done():
	}
}

// together is the time to the next point of a raster that all watchers share, so that they wake at once and what they send travels together.
func together(now time.Time, d time.Duration) time.Duration { return now.Truncate(d).Add(d).Sub(now) }

func processors() int { return runtime.GOMAXPROCS(0) }
