package store

import (
	"time"

	"k8s.io/utils/clock"
)

// grid is the raster that timers of watch caches keep. Each cache of a kind looks once a second whether bookmarks are due; some eighty of them, each at its own moment, would wake
// an idle process eighty times a second.
const grid = 500 * time.Millisecond

// together is the real clock with timers that end on the grid, so that those of many caches end at once. No timer ends early.
type together struct{ clock.RealClock }

// NewTimer makes a timer that ends at the first point of the grid after d.
func (c together) NewTimer(d time.Duration) clock.Timer {
	return &alignedTimer{c.RealClock.NewTimer(align(c.Now(), d)), c}
}

type alignedTimer struct {
	clock.Timer
	c together
}

// Reset ends the timer at the first point of the grid after d.
func (t *alignedTimer) Reset(d time.Duration) bool { return t.Timer.Reset(align(t.c.Now(), d)) }

// align is the time from now to the first point of the grid that is not before now+d. Short waits, and none, stay as they are.
func align(now time.Time, d time.Duration) time.Duration {
	if d < grid {
		return d
	}
	end := now.Add(d)
	if rest := end.Sub(end.Truncate(grid)); rest > 0 {
		d += grid - rest
	}
	return d
}
