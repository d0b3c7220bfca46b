package expect

import (
	"context"
	"testing"
	"time"
)

// A process that waits as long as it runs is given twice the time; one that does not wait, or whose
// waits are not known, the time; none more than slowest times as much.
func TestUnhindered(t *testing.T) {
	for _, c := range []struct {
		name              string
		ran, waited, want time.Duration
	}{
		{"no waits", time.Second, 0, 8 * time.Second},
		{"not known", 0, 0, 8 * time.Second},
		{"half", time.Second, time.Second, 4 * time.Second},
		{"starved", time.Second, time.Hour, time.Second},
	} {
		if got := unhindered(8*time.Second, c.ran, c.waited); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// What the kernel counts of the threads grows while they run.
func TestScheduled(t *testing.T) {
	before, _ := scheduled()
	if before == 0 {
		t.Skip("the kernel does not count how long threads run")
	}
	Eventually(t, "the threads have run longer", func() bool { ran, _ := scheduled(); return ran > before })
}

// The context ends when the time is over, and not before. A stopwatch never shows more than a
// clock; another stopwatch may show less, as it leaves out waits of its own.
func TestWithPatience(t *testing.T) {
	const most = 20 * time.Millisecond
	began := time.Now()
	ctx, cancel := WithPatience(t.Context(), most)
	defer cancel()
	<-ctx.Done()
	if got := time.Since(began); got < most {
		t.Errorf("got an end after %s, want it not before %s", got, most)
	}
	if got := context.Cause(ctx); got != context.Canceled {
		t.Errorf("got %v, want %v", got, context.Canceled)
	}
}
