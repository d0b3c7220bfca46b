package app

import (
	"context"
	"runtime"
	"testing"
	"time"
)

func TestShare(t *testing.T) {
	for _, tc := range []struct {
		name  string
		live  uint64
		since time.Duration
		last  time.Duration
		want  int
	}{
		{"at rest", 60 << 20, time.Minute, 0, 50},
		{"start: often, but little", 60 << 20, 100 * time.Millisecond, time.Second, 50},
		{"load, little alive", 60 << 20, 100 * time.Millisecond, 3 * time.Second, 200},
		{"load", 128 << 20, time.Second, time.Second, 200},
		{"load, much alive", 256 << 20, time.Second, time.Second, 100},
		{"load, very much alive", 1 << 30, time.Second, time.Minute, 50},
		{"the load is over", 256 << 20, 2 * time.Minute, 0, 50},
	} {
		if got := share(tc.live, tc.since, tc.last); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// Each collection is noticed once, until the context ends.
func TestAfterGC(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	told := make(chan struct{}, 100)
	afterGC(ctx, func() { told <- struct{}{} })
	for range 3 {
		runtime.GC()
		<-told
	}
	stop()
}
