package pods

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// sleep pauses as recorded. The last sleep of a case that is lived by turns ends sooner, when the
// Pods have been where the recorded ones were at its end.
func (l *podRun) sleep(ctx context.Context, step int, d time.Duration) error {
	last := !slices.ContainsFunc(l.c.Steps[step+1:], func(s Step) bool { return s.Sleep > 0 || s.Wait != nil })
	want, stay := l.c.Recorded.eventOrder()
	if !l.c.ByTurn || !last || len(want) == 0 {
		return pause(ctx, d)
	}
	over := time.NewTimer(d)
	defer over.Stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	var since time.Time
	for {
		select {
		case <-over.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case now := <-look.C:
			if !maps.Equal(l.watch.eventOrders(), want) {
				since = time.Time{}
				continue
			}
			if since.IsZero() {
				since = now
			}
			if now.Sub(since) >= stay {
				return nil
			}
		}
	}
}

// eventOrder is where each Pod was when cleaning up began, and how long it has to be there: over
// half of the time that it was there. Empty when nothing was restarted.
func (r Recording) eventOrder() (map[string]string, time.Duration) {
	out, since := map[string]string{}, map[string]float64{}
	loops := false
	for _, h := range r.History {
		name := fmt.Sprint(h["pod"])
		t, _ := h["t"].(float64)
		if t > r.End || h["deletionTimestamp"] != nil {
			continue
		}
		if at := podPhaseText(h); at != out[name] {
			out[name], since[name] = at, t
		}
	}
	stay := r.End
	for name, at := range out {
		loops = loops || strings.Contains(at, "restarted")
		stay = min(stay, r.End-since[name])
	}
	if !loops {
		return nil, 0
	}
	return out, time.Duration(0.6 * stay * float64(time.Second))
}

// podPhaseText names phase, states and restarts.
func podPhaseText(pod map[string]any) string {
	out := fmt.Sprint(dig(pod, "status", "phase"))
	for _, c := range statuses(pod) {
		state, _ := c["state"].(map[string]any)
		for _, kind := range slices.Sorted(maps.Keys(state)) {
			out += fmt.Sprintf(" %v %s %v", c["name"], kind, dig(state, kind, "reason"))
		}
		if n, _ := c["restartCount"].(float64); n > 0 {
			out += fmt.Sprintf(" restarted %v", n)
		}
	}
	return out
}

func (w *caseWatch) eventOrders() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]string{}
	for name, pod := range w.state.pods {
		out[name] = podPhaseText(pod)
	}
	return out
}
