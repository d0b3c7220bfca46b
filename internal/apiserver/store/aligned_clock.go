package store

import (
	"time"

	"k8s.io/utils/clock"
)

// timerGrid is what timers of watch caches are aligned to. Each of some eighty caches checks once a
// second whether bookmarks are due; each at its own moment, they would wake an idle process eighty
// times a second.
const timerGrid = 500 * time.Millisecond

// alignedClock is the real clock with timers that fire on the grid, so that those of all caches
// fire together. No timer fires early.
type alignedClock struct{ clock.RealClock }

// NewTimer implements clock.Clock: the timer fires at the first point of the grid after d.
func (c alignedClock) NewTimer(d time.Duration) clock.Timer {
	return &alignedTimer{c.RealClock.NewTimer(untilGridPoint(c.Now(), d)), c}
}

// alignedTimer aligns Reset as NewTimer does.
type alignedTimer struct {
	clock.Timer
	clock alignedClock
}

// Reset implements clock.Timer.
func (t *alignedTimer) Reset(d time.Duration) bool {
	return t.Timer.Reset(untilGridPoint(t.clock.Now(), d))
}

// untilGridPoint returns the time from now to the first point of the grid that is not before now+d.
// Durations below timerGrid are returned as they are.
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
