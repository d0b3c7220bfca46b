package app

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestGCPercentFollowsTheLoad(t *testing.T) {
	for _, tc := range []struct {
		name      string
		live      uint64
		allocated uint64
		in        time.Duration
		want      int
	}{
		{"at rest", 60 << 20, 30 << 20, time.Minute, 50},
		{"load, little alive", 32 << 20, 30 << 20, 100 * time.Millisecond, 400},
		{"load", 128 << 20, 60 << 20, time.Second, 200},
		{"load, much alive", 256 << 20, 60 << 20, time.Second, 100},
		{"load, very much alive", 1 << 30, 60 << 20, time.Second, 100},
		{"load that seldom collects", 64 << 20, 256 << 20, 10 * time.Second, 400},
		{"the load is over", 256 << 20, 1 << 20, busyCheckPeriod, 50},
		{"nothing is known", 0, 0, 0, 400},
	} {
		if got := gcPercent(tc.live, tc.allocated, tc.in); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// A process that allocates much gets more room, and gives it back when it is over without a
// collection coming by.
func TestPaceFollowsTheLoad(t *testing.T) {
	was := debug.SetGCPercent(idleGCPercent)
	defer debug.SetGCPercent(was)
	p := newGCPacer()
	defer p.timer.Stop()
	p.last = time.Now().Add(-time.Second)
	p.adjust()
	if p.percent <= idleGCPercent {
		t.Errorf("under load: %d", p.percent)
	}
	if !p.timer.Stop() {
		t.Error("nobody looks whether the load is over")
	}
	p.last = time.Now().Add(-time.Hour)
	p.adjust()
	if got := debug.SetGCPercent(idleGCPercent); p.percent != idleGCPercent || got != idleGCPercent {
		t.Errorf("at rest: %d, the collector keeps %d", p.percent, got)
	}
	if p.timer.Stop() {
		t.Error("a process at rest has a clock")
	}
}

// Each collection is noticed once, until the context ends: then at most by the call that waits for
// the next one already.
func TestAfterGC(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	reported, others := make(chan struct{}, 100), make(chan struct{}, 100)
	afterGC(ctx, func() { reported <- struct{}{} })
	for range 3 {
		runtime.GC()
		<-reported
	}
	stop()
	afterGC(t.Context(), func() { others <- struct{}{} })
	for range 3 {
		runtime.GC()
		<-others
	}
	if got := len(reported); got > 1 {
		t.Errorf("3 collections after the end were noticed %d times, want at most once", got)
	}
}
