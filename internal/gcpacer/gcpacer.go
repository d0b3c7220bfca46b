// Package gcpacer keeps the memory of a process small: it sets how much garbage may gather by what
// the process does, and gives back the pages of the program's file that are not used at rest.
// Every command that goes on running calls Run once, at its start.
package gcpacer

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

const (
	// startGCPercent is how much garbage, in percent of what lives, may gather while a process
	// starts.
	startGCPercent = 50
	// idleGCPercent is that at rest: idle Gantry, which allocates some 200 KB a second, collects
	// every minute or two.
	idleGCPercent = 25
	// busyGCPercent is that under load, when collecting would take a fifth of all work.
	busyGCPercent = 400
	// minBusyGCPercent is that under load where much lives, Go's default.
	minBusyGCPercent = 100
	// maxBusyGarbage bounds the garbage under load, in bytes, as long as less lives.
	maxBusyGarbage = 256 << 20
	// busyAllocationRate is what a process allocates under load at least, in bytes per second. At
	// rest it is a tenth of that.
	busyAllocationRate = 4 << 20
	// startPeriod is how long a process may allocate much without being under load: what lives at
	// the end of its start lies scattered among the garbage, and the larger that was, the more
	// memory stays in use for good.
	startPeriod = 15 * time.Second
	// startedPeriod is how long after its start a process that does not collect by itself takes the
	// share of one at rest, and gives the pages of its program back: all roles have begun their
	// work by then.
	startedPeriod = 30 * time.Second
	// busyCheckPeriod is how often a process under load looks whether it still is. One at rest has
	// no clock.
	busyCheckPeriod = 5 * time.Second
)

// gcPercent is how much garbage may gather until the next collection, in percent of the live bytes,
// for a process of that age that allocated so many bytes in that time.
func gcPercent(live, allocated uint64, in, age time.Duration) int {
	switch {
	case age < startPeriod:
		return startGCPercent
	case float64(allocated) < busyAllocationRate*in.Seconds():
		return idleGCPercent
	}
	return max(minBusyGCPercent, min(busyGCPercent, int(maxBusyGarbage*100/max(1, live))))
}

// Run sets the share of garbage anew after each collection until ctx ends, and under load now and
// then, so that what a load left is collected when it is over. The pages of the program's file
// leave this process once it has started, and whenever a load is over. It returns at once.
func Run(ctx context.Context) {
	debug.SetGCPercent(startGCPercent)
	p := newGCPacer(func() {
		if err := releaseProgramPages(); err != nil {
			klog.FromContext(ctx).V(2).Info("Pages of the program stay in memory", "err", err)
		}
	})
	started := time.AfterFunc(startedPeriod, func() { p.adjust(); p.release() })
	context.AfterFunc(ctx, func() { p.timer.Stop(); started.Stop() })
	afterGC(ctx, p.adjust)
}

// gcPacer is what was seen at the last look.
type gcPacer struct {
	begin     time.Time
	mu        sync.Mutex
	last      time.Time
	allocated uint64 // bytes since the process began
	percent   int
	timer     *time.Timer // it runs while the share is that of a load
	release   func()      // called when a load is over; must not block for long
	samples   []metrics.Sample
}

func newGCPacer(release func()) *gcPacer {
	now := time.Now()
	p := &gcPacer{begin: now, last: now, percent: startGCPercent, release: release,
		samples: []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}}
	p.timer = time.AfterFunc(busyCheckPeriod, p.adjust)
	p.timer.Stop() // until there is a load
	return p
}

func (p *gcPacer) adjust() {
	p.mu.Lock()
	defer p.mu.Unlock()
	metrics.Read(p.samples)
	live, allocated, now := p.samples[0].Value.Uint64(), p.samples[1].Value.Uint64(), time.Now()
	next := gcPercent(live, allocated-p.allocated, now.Sub(p.last), now.Sub(p.begin))
	p.allocated, p.last = allocated, now
	if next != p.percent {
		loadIsOver := next == idleGCPercent && now.Sub(p.begin) > startedPeriod
		p.percent = next
		debug.SetGCPercent(next) // a smaller one is overdrawn by what lies there, which is then collected
		if loadIsOver {
			p.release()
		}
	}
	if next > idleGCPercent {
		p.timer.Reset(busyCheckPeriod)
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
