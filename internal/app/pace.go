package app

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// memoryShare is how much garbage, in percent of what lives, may gather at rest: idle Gantry lives in about half the memory of Go's default, for a few percent more work.
	memoryShare = 50
	// busyShare is that under load, when collecting would take a seventh of all work.
	busyShare = 200
	// busyRoom bounds the garbage under load, in bytes.
	busyRoom = 256 << 20
	// busyLive is what an idle Gantry with a node full of Pods has not: below it memory counts more than work, until a load has lasted.
	busyLive = 96 << 20
	// busyEvery is how often garbage is collected under load, at least. At rest it happens once in a minute or two.
	busyEvery = 2 * time.Second
	// busyFor is what a load lasts and a start does not.
	busyFor = 3 * time.Second
)

// share is how much garbage may gather until the next collection, in percent of the live bytes; since is the time since the collection before, lasting
// how long collections have come as often as under load.
func share(live uint64, since, lasting time.Duration) int {
	if since > busyEvery || live < busyLive && lasting < busyFor {
		return memoryShare
	}
	return max(memoryShare, min(busyShare, int(busyRoom*100/live)))
}

// keepPace sets the share anew after each collection until ctx ends. It has no clock of its own: a collection frees a token, which brings it here.
func keepPace(ctx context.Context) {
	now := memoryShare
	debug.SetGCPercent(now)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	last := time.Now()
	begun := last // of the load
	afterGC(ctx, func() {
		metrics.Read(live)
		since := time.Since(last)
		last = time.Now()
		if since > busyEvery {
			begun = last
		}
		if live[0].Value.Kind() != metrics.KindUint64 {
			return
		}
		if next := share(live[0].Value.Uint64(), since, last.Sub(begun)); next != now {
			now = next
			debug.SetGCPercent(now)
		}
	})
}

// afterGC calls f after each collection.
func afterGC(ctx context.Context, f func()) {
	if ctx.Err() != nil {
		return
	}
	type token struct{ self *int }
	runtime.AddCleanup(&token{new(int)}, func(struct{}) { f(); afterGC(ctx, f) }, struct{}{})
}
