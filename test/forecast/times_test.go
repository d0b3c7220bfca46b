package forecast_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// spread is how long a change takes in the runs of a forecast.
type spread struct {
	fastest, slowest time.Duration
	undone           bool // in some run it is not done within the horizon
}

func (s *spread) add(done bool, took time.Duration) {
	if s.slowest == 0 || took < s.fastest {
		s.fastest = took
	}
	s.slowest, s.undone = max(s.slowest, took), s.undone || !done
}

// tolerance is by how much a time may miss the spread, as for `gantry simulate score`.
const tolerance = 2 * time.Second

// times counts changes by whether they took as long as was foretold.
type times struct {
	within, open int
	outside      []string
}

// renewInterval is how far apart a node's reports are, and monitorPeriod how often the controller
// reads them: a loss may come just after a report or just before one.
const renewInterval, monitorPeriod = 10 * time.Second, 5 * time.Second

// compare takes in how long a change took, of which the machine may have taken lost for other work.
func (c *times) compare(verb string, foretold spread, took, lost time.Duration) {
	either := tolerance
	if verb == "lose" {
		either += renewInterval + monitorPeriod
	}
	switch {
	case foretold.undone, took == 0:
		c.open++
	case took >= foretold.fastest-either && took <= foretold.slowest+either+lost:
		c.within++
	default:
		c.outside = append(c.outside, fmt.Sprintf("%s took %s, foretold %s to %s, and %s were lost", verb, took,
			foretold.fastest, foretold.slowest, lost))
	}
}

// report logs the counts. A test fails by times only where they are asked for, as they depend on
// what else the machine does.
func (c *times) report(t *testing.T) {
	t.Helper()
	t.Logf("times: %d within their spreads, %d outside, %d left open", c.within, len(c.outside), c.open)
	for _, s := range c.outside {
		t.Log(s)
	}
	if asked := fromEnv(t, "FORECAST_TIMES", 0) != 0; asked && len(c.outside) > 0 {
		t.Errorf("%d changes took longer or shorter than foretold", len(c.outside))
	}
}

// stalls measures by how much all sleeps together were late until ctx ends: time that the machine
// gave to others.
func stalls(ctx context.Context) (lost func() time.Duration) {
	const nap = 20 * time.Millisecond
	out := make(chan time.Duration, 1)
	go func() {
		late := time.Duration(0)
		for ctx.Err() == nil {
			begun := time.Now()
			select {
			case <-time.After(nap):
				late += time.Since(begun) - nap
			case <-ctx.Done():
			}
		}
		out <- late
	}()
	return func() time.Duration { return <-out }
}

// finished tells whether every Pod that stays is ready, and every other one gone, but for those of
// a silent node.
func (l *lab) finished() bool {
	return !slices.ContainsFunc(l.pods(), func(p corev1.Pod) bool {
		if p.DeletionTimestamp != nil {
			return p.Spec.NodeName != l.lost
		}
		return !pod.IsReady(&p)
	})
}
