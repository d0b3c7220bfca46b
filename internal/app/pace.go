package app

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// memoryShare is how much garbage, in percent of what lives, may gather at rest: idle Gantry lives in about half the memory of Go's default, for a few percent more work.
	memoryShare = 50
	// busyShare is that under load, when collecting would take a fifth of all work.
	busyShare = 400
	// leastBusyShare is that under load where much lives, Go's default.
	leastBusyShare = 100
	// busyRoom bounds the garbage under load, in bytes, as long as less lives.
	busyRoom = 256 << 20
	// busyRate is what a process allocates under load at least, in bytes per second. At rest it is a tenth of that.
	busyRate = 4 << 20
	// busyLook is how often a process under load looks whether it still is. One at rest has no clock.
	busyLook = 5 * time.Second
)

// share is how much garbage may gather until the next collection, in percent of the live bytes, for a process that allocated so many bytes in that time.
func share(live, allocated uint64, in time.Duration) int {
	if float64(allocated) < busyRate*in.Seconds() {
		return memoryShare
	}
	return max(leastBusyShare, min(busyShare, int(busyRoom*100/max(1, live))))
}

// keepPace sets the share anew after each collection until ctx ends, and under load now and then, so that what a load left is collected when it is over.
func keepPace(ctx context.Context) {
	debug.SetGCPercent(memoryShare)
	p := newPace()
	context.AfterFunc(ctx, func() { p.timer.Stop() })
	afterGC(ctx, p.look)
}

// pace is what was seen at the last look.
type pace struct {
	mu        sync.Mutex
	last      time.Time
	allocated uint64 // bytes since the process began
	share     int
	timer     *time.Timer // it runs while the share is that of a load
	figures   []metrics.Sample
}

func newPace() *pace {
	p := &pace{last: time.Now(), share: memoryShare, figures: []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}}
	p.timer = time.AfterFunc(busyLook, p.look)
	p.timer.Stop() // until there is a load
	return p
}

func (p *pace) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	metrics.Read(p.figures)
	live, allocated, now := p.figures[0].Value.Uint64(), p.figures[1].Value.Uint64(), time.Now()
	next := share(live, allocated-p.allocated, now.Sub(p.last))
	p.allocated, p.last = allocated, now
	if next != p.share {
		p.share = next
		debug.SetGCPercent(next) // a smaller one is overdrawn by what lies there, which is then collected
	}
	if next > memoryShare {
		p.timer.Reset(busyLook)
	}
}

// afterGC calls f after each collection.
func afterGC(ctx context.Context, f func()) {
	if ctx.Err() != nil {
		return
	}
	type token struct{ self *int }
	runtime.AddCleanup(&token{new(int)}, func(struct{}) { f(); afterGC(ctx, f) }, struct{}{})
}
