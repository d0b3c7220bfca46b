// Package probetest is the suite every kind of probe passes.
//
// To use it: a Subject that can bring a container into each condition, and Run.
package probetest

import (
	"context"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/probe"
)

// Condition is how the container that is asked behaves.
type Condition string

// The conditions.
const (
	Healthy      Condition = "healthy" // answers well, at once
	Failing      Condition = "sick"    // answers, but not well
	Absent       Condition = "absent"  // nobody answers: the port is closed, the command is missing
	Unresponsive Condition = "mute"    // takes the question and never answers
)

// Subject is a kind under test.
type Subject struct {
	Prober probe.Prober
	// Target returns whom to ask so that the condition holds; the suite sets the timeout.
	Target func(t *testing.T, c Condition) probe.Target
	// Skip lists conditions the kind cannot tell from Healthy, such as Failing for a kind that only
	// connects.
	Skip []Condition
}

// patience is the timeout of questions that nobody answers, enough that of the others;
// slack is how much later an answer may come on a busy machine.
const (
	probeTimeout = 300 * time.Millisecond
	deadline     = 20 * time.Second
	slack        = 10 * time.Second
)

// Run proves what all kinds promise: the right result for each condition, the timeout kept, an end
// when the context ends, no confusion when asked side by side.
func Run(t *testing.T, s Subject) {
	for _, c := range []Condition{Healthy, Failing, Absent, Unresponsive} {
		t.Run(string(c), func(t *testing.T) {
			target := s.target(t, c)
			startedAt := time.Now()
			o := s.Prober.Probe(t.Context(), target)
			if took := time.Since(startedAt); took > probeTimeout+slack {
				t.Errorf("took %v", took)
			}
			s.check(t, c, o)
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		target := s.target(t, Unresponsive)
		target.Timeout = time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan probe.Outcome, 1)
		go func() { done <- s.Prober.Probe(ctx, target) }()
		cancel()
		select {
		case <-done:
		case <-time.After(slack):
			t.Error("goes on after its context ended")
		}
	})
	t.Run("side by side", func(t *testing.T) {
		healthy, absent := s.target(t, Healthy), s.target(t, Absent)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { s.check(t, Healthy, s.Prober.Probe(t.Context(), healthy)) })
			wg.Go(func() { s.check(t, Absent, s.Prober.Probe(t.Context(), absent)) })
		}
		wg.Wait()
	})
}

func (s Subject) target(t *testing.T, c Condition) probe.Target {
	target := s.Target(t, c)
	target.Timeout = probeTimeout
	if c == Healthy || c == Failing {
		target.Timeout = deadline
	}
	if target.Pod == nil {
		target.Pod = &v1.Pod{}
	}
	if target.Container == nil {
		target.Container = &v1.Container{Name: "c"}
	}
	return target
}

func (s Subject) check(t *testing.T, c Condition, o probe.Outcome) {
	t.Helper()
	for _, not := range s.Skip {
		if not == c {
			c = Healthy
		}
	}
	switch good := o.Err == nil && o.Result == probe.Success; {
	case c == Healthy && !good:
		t.Errorf("a healthy container gives %+v", o)
	case c == Absent && o.Err == nil && o.Result != probe.Failure,
		c != Healthy && c != Absent && (o.Err != nil || o.Result != probe.Failure):
		t.Errorf("%s gives %+v, want a failure", c, o)
	case c != Healthy && o.Err == nil && o.Output == "" && c != Failing:
		t.Errorf("%s gives a failure that says nothing", c)
	}
}
