package podexec

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestGateLetsContainersGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1)
		var mu sync.Mutex
		var order []string
		ask := func(urgency int, name string) {
			go g.pass(t.Context(), urgency, func() error {
				time.Sleep(100 * time.Millisecond)
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				return nil
			})
			synctest.Wait()
		}
		ask(beginning, "s1")
		ask(beginning, "s2")
		ask(finishing, "c1")
		ask(finishing, "c2")
		time.Sleep(time.Second)
		if got := strings.Join(order, " "); got != "s1 c1 c2 s2" {
			t.Error(got)
		}
		if g.free != 1 {
			t.Errorf("%d places free", g.free)
		}
	})
}

// row: PWK-01
func TestGateDoesNotWaitForWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1)
		ctx, cancel := context.WithCancel(t.Context())
		go g.pass(ctx, beginning, func() error { <-ctx.Done(); return nil })
		synctest.Wait()
		begin := time.Now()
		if err := g.pass(ctx, beginning, func() error { return nil }); err != nil || time.Since(begin) != patience {
			t.Error(err, time.Since(begin))
		}
		cancel()
		synctest.Wait()
		if g.free != 1 {
			t.Errorf("%d places free", g.free)
		}
	})
}

func TestGateForgetsWhoGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1)
		hold := make(chan struct{})
		go g.pass(t.Context(), beginning, func() error { <-hold; return nil })
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 1)
		go func() { errs <- g.pass(ctx, beginning, func() error { return nil }) }()
		synctest.Wait()
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		close(hold)
		synctest.Wait()
		if g.free != 1 {
			t.Errorf("%d places free", g.free)
		}
	})
}
