package expect

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Stopwatch measures time as it passes for a process that has the processors to itself: from the
// time since its start it leaves out the share in which the process's threads waited for a
// processor. It serves tests that give up after a while on what does not have to come. It may be
// used by several goroutines at once.
type Stopwatch struct {
	began       time.Time
	ran, waited time.Duration
}

// NewStopwatch starts one.
func NewStopwatch() Stopwatch {
	s := Stopwatch{began: time.Now()}
	s.ran, s.waited = scheduled()
	return s
}

// Elapsed is the time since the start without the share of waits; all of it where the system does
// not tell.
func (s Stopwatch) Elapsed() time.Duration {
	ran, waited := scheduled()
	return unhindered(time.Since(s.began), ran-s.ran, waited-s.waited)
}

// slowest bounds how much slower than alone a process is taken to be.
const slowest = 8

// unhindered is what is left of a time in which threads ran and waited for so long.
func unhindered(took, ran, waited time.Duration) time.Duration {
	if ran <= 0 || waited <= 0 {
		return took
	}
	return max(time.Duration(float64(took)*float64(ran)/float64(ran+waited)), took/slowest)
}

// scheduled is how long the threads of this process have run, and waited to run, since they began;
// zero where the system does not tell.
func scheduled() (ran, waited time.Duration) {
	files, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		var r, w int64
		if _, err := fmt.Sscan(string(raw), &r, &w); err == nil {
			ran, waited = ran+time.Duration(r), waited+time.Duration(w)
		}
	}
	return ran, waited
}

// WithPatience returns a context that ends when a stopwatch shows d.
func WithPatience(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		watch := NewStopwatch()
		for left := d; left > 0; left = d - watch.Elapsed() {
			select {
			case <-time.After(left):
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}
