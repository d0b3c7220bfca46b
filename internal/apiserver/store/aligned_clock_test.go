package store

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestTimersEndTogetherAndNeverEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(0, rapid.Int64Range(0, 1<<60).Draw(t, "now"))
		d := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "d"))
		got := untilGridPoint(now, d)
		if got < d || got > d+timerGrid {
			t.Fatalf("%s became %s", d, got)
		}
		if end := now.Add(got); d >= timerGrid && !end.Equal(end.Truncate(timerGrid)) {
			t.Fatalf("ends off the grid: %s", end)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var ends []time.Time
		for _, start := range []time.Duration{0, 130 * time.Millisecond, 90 * time.Millisecond} {
			time.Sleep(start) // virtual
			timer := alignedClock{}.NewTimer(time.Second)
			timer.Reset(time.Second)
			done := make(chan struct{})
			go func() { ends = append(ends, <-timer.C()); close(done) }()
			defer func() { <-done }()
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		for _, e := range ends {
			if !e.Equal(e.Truncate(timerGrid)) {
				t.Errorf("a timer ended off the grid: %v", ends)
			}
		}
		if len(ends) != 3 {
			t.Errorf("ends: %v, want 3 of them", ends)
		}
	})
}
