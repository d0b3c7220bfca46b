package store

import (
	"time"

	"k8s.io/utils/clock"
)

// timerGrid is the raster that timers of watch caches keep. Each cache of a kind looks once a
// second whether bookmarks are due; some eighty of them, each at its own moment, would wake an idle
// process eighty times a second.
const timerGrid = 500 * time.Millisecond

// alignedClock is the real clock with timers that end on the grid, so that those of many caches end
// at once. No timer ends early.
type alignedClock struct{ clock.RealClock }

// NewTimer makes a timer that ends at the first point of the grid after d.
func (c alignedClock) NewTimer(d time.Duration) clock.Timer {
	return &alignedTimer{c.RealClock.NewTimer(untilGridPoint(c.Now(), d)), c}
}

type alignedTimer struct {
	clock.Timer
	clock alignedClock
}

// Reset ends the timer at the first point of the grid after d.
func (t *alignedTimer) Reset(d time.Duration) bool {
	return t.Timer.Reset(untilGridPoint(t.clock.Now(), d))
}

// untilGridPoint is the time from now to the first point of the grid that is not before now+d.
// Short waits, and none, stay as they are.
func untilGridPoint(now time.Time, d time.Duration) time.Duration {
	if d < timerGrid {
		return d
	}
	end := now.Add(d)
	if rest := end.Sub(end.Truncate(timerGrid)); rest > 0 {
		d += timerGrid - rest
	}
	return d
}
