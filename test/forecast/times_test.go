package forecast_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/simulate/behavior"
	"github.com/gantry-project/gantry/internal/simulate/forecast"
	"github.com/gantry-project/gantry/testcluster"
)

// spread is how long a change takes in the runs of a forecast, as the forecast prints it: the
// fastest, the median and the 99th percentile.
type spread struct {
	forecast.Outcome
	took   []time.Duration
	undone bool // in some run it is not done within the horizon
}

func (s *spread) add(done bool, took time.Duration) {
	s.took, s.undone = append(s.took, took), s.undone || !done
}

// slowImage is what containers run that take stopTime to end: so much longer than the tolerance
// that a forecast without it misses the spread.
const (
	slowImage = "slow"
	stopTime  = 3 * time.Second
)

func stopsSlowly(p *testcluster.Process) int {
	<-p.Signal
	select {
	case <-time.After(stopTime):
	case <-p.Context.Done():
	}
	return 0
}

// template is what the workloads of a scenario run.
func (l *lab) template(name string, milliCPU, memory int) corev1.PodTemplateSpec {
	t := template(name, milliCPU, memory)
	if l.slow {
		t.Spec.Containers[0].Image, t.Spec.TerminationGracePeriodSeconds = slowImage, new(int64(30))
	}
	return t
}

// model is how long the containers of a scenario take.
func (l *lab) model() behavior.Model {
	quick := behavior.Times{Start: behavior.Span{P50: 60 * time.Millisecond, P99: 250 * time.Millisecond},
		Stop: behavior.Span{P50: 20 * time.Millisecond, P99: 150 * time.Millisecond}}
	others := quick
	if l.slow {
		others.Stop.P50, others.Stop.P99 = quick.Stop.P50+stopTime, quick.Stop.P99+stopTime
	}
	const fillers = "" // they have no owner
	return behavior.Model{Default: others, ByOwner: map[string]behavior.Times{fillers: quick}}
}

// tolerance is by how much a time may miss the spread, as for `gantry simulate score`.
const tolerance = 2 * time.Second

// times counts changes by whether they took as long as was foretold.
type times struct {
	within, open int
	outside      []string
	off, lost    []time.Duration // of the compared ones: how far from the spread, and how late the machine was
}

// renewInterval is how far apart a node's reports are, and monitorPeriod how often the controller
// reads them: a loss may come just after a report or just before one.
const renewInterval, monitorPeriod = 10 * time.Second, 5 * time.Second

// compare takes in how long a change took, of which the machine may have taken lost for other work.
func (c *times) compare(t *testing.T, verb string, foretold spread, took, lost time.Duration) {
	either := tolerance
	if verb == "lose" {
		either += renewInterval + monitorPeriod
	}
	is := fmt.Sprintf("%s took %s, foretold %s to %s, and %s were lost", verb, took.Round(time.Millisecond),
		foretold.Fastest.Round(time.Millisecond), foretold.P99.Round(time.Millisecond), lost.Round(time.Millisecond))
	switch {
	case foretold.undone:
		c.open++
		return
	case took > 0 && took >= foretold.Fastest-either && took <= foretold.P99+either+lost:
		c.within++
		t.Log(is)
	default:
		c.outside = append(c.outside, is)
	}
	c.off, c.lost = append(c.off, foretold.off(took)), append(c.lost, lost)
}

// report logs the counts, and fails when a change took longer or shorter than was foretold.
func (c *times) report(t *testing.T) {
	t.Helper()
	t.Logf("times: %d within their spreads, %d outside, %d left open", c.within, len(c.outside), c.open)
	for _, s := range c.outside {
		t.Errorf("got %s: want it within the spread", s)
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
		return (l.lost == "" || p.Spec.NodeName != l.lost) && (p.DeletionTimestamp != nil || !pod.IsReady(&p))
	})
}
