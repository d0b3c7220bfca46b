package volumestats

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestHangTimesOutAndIsMeasuredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, server := 0, make(chan struct{})
		a := New(func(path string) (int, error) {
			if path == "/far" {
				asked++
				<-server
			}
			return len(path), nil
		})
		for range 3 {
			if _, err := a.Measure("/far"); err == nil || !strings.Contains(err.Error(),
				"measuring /far hangs since ") {
				t.Errorf(`got %v, want an error with "measuring /far hangs since"`, err)
			}
			if n, err := a.Measure("/near"); n != 5 || err != nil {
				t.Errorf("a neighbour: %d %v, want 5, no error", n, err)
			}
		}
		if asked != 1 || len(a.Hanging()) != 1 {
			t.Errorf("asked %d times, hanging %v, want 1, 1 of them", asked, a.Hanging())
		}
		close(server)
		synctest.Wait()
		if n, err := a.Measure("/far"); n != 4 || err != nil || len(a.Hanging()) != 0 {
			t.Errorf("when the server is back: %d %v", n, err)
		}
	})
}

// Hanging lists the paths whose question has not been answered in time, with when it was asked.
func (a *Measurer[T]) Hanging() map[string]time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]time.Time{}
	for path, q := range a.pending {
		if time.Since(q.since) >= a.timeout {
			out[path] = q.since
		}
	}
	return out
}
