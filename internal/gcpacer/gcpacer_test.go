package gcpacer

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
		age       time.Duration
		want      int
	}{
		{"at rest", 60 << 20, 30 << 20, time.Minute, time.Hour, 25},
		{"load, little alive", 32 << 20, 30 << 20, 100 * time.Millisecond, time.Hour, 400},
		{"load", 128 << 20, 60 << 20, time.Second, time.Hour, 200},
		{"load, much alive", 256 << 20, 60 << 20, time.Second, time.Hour, 100},
		{"load, very much alive", 1 << 30, 60 << 20, time.Second, time.Hour, 100},
		{"load that seldom collects", 64 << 20, 256 << 20, 10 * time.Second, time.Hour, 400},
		{"the load is over", 256 << 20, 1 << 20, busyCheckPeriod, time.Hour, 25},
		{"it starts", 32 << 20, 30 << 20, 100 * time.Millisecond, 14 * time.Second, 50},
		{"it has started", 32 << 20, 30 << 20, 100 * time.Millisecond, 15 * time.Second, 400},
		{"nothing is known", 0, 0, 0, time.Hour, 400},
	} {
		if got := gcPercent(tc.live, tc.allocated, tc.in, tc.age); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// allocated keeps the compiler from leaving the allocation out.
var allocated []byte

// A process that allocates much gets more room, and gives it back when it is over without a
// collection coming by.
func TestPaceFollowsTheLoad(t *testing.T) {
	was := debug.SetGCPercent(idleGCPercent)
	defer debug.SetGCPercent(was)
	released := 0
	p := newGCPacer(func() { released++ })
	defer p.timer.Stop()
	p.begin, p.last = time.Now().Add(-time.Minute), time.Now().Add(-time.Second)
	allocated = make([]byte, 2*busyAllocationRate)
	p.adjust()
	if p.percent <= idleGCPercent {
		t.Errorf("under load: got %d, want more than %d", p.percent, idleGCPercent)
	}
	if !p.timer.Stop() {
		t.Error("nobody looks whether the load is over")
	}
	if released != 0 {
		t.Errorf("pages were released %d times under load, want 0", released)
	}
	p.last = time.Now().Add(-time.Hour)
	p.adjust()
	if got := debug.SetGCPercent(idleGCPercent); p.percent != idleGCPercent || got != idleGCPercent {
		t.Errorf("at rest: %d, the collector keeps %d", p.percent, got)
	}
	if p.timer.Stop() {
		t.Error("a process at rest has a clock")
	}
	p.last = time.Now().Add(-time.Hour)
	p.adjust()
	if released != 1 {
		t.Errorf("pages were released %d times after the load and at rest, want once", released)
	}
}

// Each collection is noticed once, until the context ends: then at most by the call that waits for
// the next one already.
func TestEachGCIsNoticedOnce(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	reported, others := make(chan struct{}, 100), make(chan struct{}, 100)
	afterGC(ctx, func() { reported <- struct{}{} })
	for range 3 {
		collectUntil(reported)
	}
	stop()
	afterGC(t.Context(), func() { others <- struct{}{} })
	for range 3 {
		collectUntil(others)
	}
	if got := len(reported); got > 1 {
		t.Errorf("the collections after the end were noticed %d times, want at most once", got)
	}
}

// collectUntil collects until one collection was noticed: the first may still find the last one's
// token on a stack.
func collectUntil(noticed <-chan struct{}) {
	for {
		runtime.GC()
		select {
		case <-noticed:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}
