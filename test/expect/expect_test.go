package expect

import (
	"testing"
	"time"
)

// A call that takes no time is made every so often, one that takes long no more than a third of the
// time, and after half a second at the latest.
func TestPause(t *testing.T) {
	const every = 100 * time.Millisecond
	for took, want := range map[time.Duration]time.Duration{0: every, 20 * time.Millisecond: 80 * time.Millisecond,
		90 * time.Millisecond: 180 * time.Millisecond, time.Second: longestPause} {
		if got := pause(every, took); got != want {
			t.Errorf("after a call of %s: got %s, want %s", took, got, want)
		}
	}
}
